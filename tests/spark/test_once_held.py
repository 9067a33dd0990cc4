"""`run --once`: no batch begins for time alone, and the run ends where there is nothing to read."""

import time
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from streaming.service.pipeline import Pipeline
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import channel_topics, run_once, status, write_config

pytestmark = pytest.mark.timeout(900)
FIRST_SEEN = {"kind": "linear", "start": "first-seen", "settle": "1 s"}
HELD = {"settling": {"labels": FIRST_SEEN}, "skipping": {"gap": {"policy": "skip", "after": "1 s"}}}
NET = {
    "discipline": "group",
    "sequencing": "network",
    "groups": {"G": ["A", "B"], "H": ["A", "B"]},
}
SLOW_SECONDS = 12
"""Longer than timers, and than the longest pause between two batches without records."""


@contextmanager
def slow_start():
    """The last pipeline starts when the others have been through for long."""
    start = Pipeline.start

    def slowly(self):
        if self.name == "late":
            time.sleep(SLOW_SECONDS)
        start(self)

    with patch.object(Pipeline, "start", slowly):
        yield


def test_what_is_held_stays_held_while_other_pipelines_start(broker, topic_prefix, tmp_path):
    pipelines = {
        name: {**channel_topics(f"{topic_prefix}{name}."), **of}
        for name, of in {**HELD, "late": {}, "net": NET}.items()
    }
    create_topics(broker.bootstrap, {of["input"]: 1 for of in pipelines.values()})
    for name in HELD:
        record = Record(b"k", b"v", [("label", b"5")])
        produce(broker.bootstrap, pipelines[name]["input"], [record])
    record = Record(b"k", b"v", [("label", b"0"), ("group", b"G")])
    produce(broker.bootstrap, pipelines["late"]["input"], [record])
    pipelines["net"] |= {
        "input": pipelines["late"]["output"],
        "transit": f"{topic_prefix}net.transit",
    }
    config = write_config(tmp_path, broker.bootstrap, pipelines)
    within = f"{__name__}:{slow_start.__name__}"
    for _ in range(2):  # the second time there is nothing new, and it ends
        said = run_once(config, within=within)
        found = status(config)
        assert {name: (of["held"], of["delivered"]) for name, of in found.items()} == {
            "settling": (1, 0),
            "skipping": (1, 0),
            "late": (0, 1),
            "net": (0, 2),
        }, said
        assert {found[name]["batch"] for name in HELD} == {0}, said
