"""The configuration: one TOML file, checked whole before anything starts."""

from streaming.config.load import Config, at_address, load_config, parse_config
from streaming.config.models import ChannelPipeline, GroupPipeline, MulticastPipeline, Pipeline

__all__ = [
    "ChannelPipeline",
    "Config",
    "GroupPipeline",
    "MulticastPipeline",
    "Pipeline",
    "at_address",
    "load_config",
    "parse_config",
]
