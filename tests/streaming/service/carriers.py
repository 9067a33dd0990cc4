"""What does a pipeline's batches, without Spark and with a checkpoint in memory."""

from streaming.config import parse_config
from streaming.disciplines import DISCIPLINES
from streaming.service.checkpoint import Identity
from streaming.service.planning import make_plan
from streaming.service.progress import Progress
from streaming.service.query import Carrier
from tests.checkpoints import MemoryCheckpoint


def carrier(notify=lambda _progress: None, claim=None, still_ms=None, discipline="channel"):
    config = parse_config({"pipelines": {"p": {"discipline": discipline}}}, {}, "c.toml")
    own = DISCIPLINES[discipline].identity(config.pipelines["p"])
    plan = make_plan(config, "p", Identity(discipline, 16, 2, ["p.in"], own), {})
    return Carrier(plan, Progress(), MemoryCheckpoint(), notify, claim, still_ms=still_ms)
