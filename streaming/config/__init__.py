"""The configuration: one TOML file, checked whole before anything starts."""

from streaming.config.load import Config, at_address, load_config, parse_config

__all__ = ["Config", "at_address", "load_config", "parse_config"]
