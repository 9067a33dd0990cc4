"""A walk through the verbs beside a running service, printed to be looked at.

SEQUENCER_WALK names a file for all that was said.
"""

import os
from pathlib import Path

import pytest

from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import WarmService, channel_topics, status
from tests.walks import require_readable, walk, walk_with_spark, with_input

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def verbs(config, topics):
    """Each verb that shows something of a service."""
    skip = ("skip", config, "--channel-base64", "SUJN", "--dry-run", "--pipeline", "p")
    return [
        ("check", config),
        ("topics", config),
        ("status", config),
        ("status", config, "--blocked"),
        ("status", config, "--lag"),
        skip,
        ("skip", config, "--channel", "nobody", "--dry-run", "--pipeline", "p"),
        ("group", "list", config, "--pipeline", "g"),
        ("node", "list", config, "--pipeline", "m"),
        ("resend", config, "--pipeline", "p", "--reason", "duplicate", "--dry-run"),
        ("advise", config),
        ("replay", config, "--pipeline", "p", "--set", "gap.after=2s"),
        ("verify", config),
        ("why", f"{topics['input']}/0@0", config),
        ("graph", config, "--pipeline", "g"),
        ("tail", topics["rejects"], "--config", config, "--max", "1", "--from-beginning"),
    ]


def test_every_verb_beside_a_service(broker, topic_prefix, tmp_path):
    topics = {name: channel_topics(f"{topic_prefix}{name}.") for name in "pgm"}
    create_topics(broker.bootstrap, {each["input"]: 1 for each in topics.values()})
    config = with_input(tmp_path, broker, topics)
    produce(broker.bootstrap, topics["g"]["input"], [Record(b"s", b"x", [("group", b"G1")])])
    produce(broker.bootstrap, topics["m"]["input"], [Record(b"s", b"x", [("to", b"q")])])
    with WarmService(config) as service:
        service.until(lambda: status(config)["p"]["held"] == 4)
        service.until(lambda: status(config)["m"]["delivered"] == 1)
        said = [(words, walk(words)) for words in verbs(config, topics["p"])]
        assert service.stop() == 0, service.said()
    for name in topics:
        words = ("inspect", config, "--pipeline", name)
        said.append((words, walk_with_spark(words)))
    if path := os.environ.get("SEQUENCER_WALK"):
        Path(path).write_text(
            "".join(
                f"\n=== {place}: sequencer {' '.join(map(str, words))}\n{out}{err}"
                for words, found in said
                for place, (out, err) in found.items()
            )
        )
    for words, found in said:
        require_readable(words, found)
