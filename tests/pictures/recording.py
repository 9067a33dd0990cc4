"""A short run of a real service, a step at a time: what was sent, and what came of it, where.

heavy … python -m tests.pictures.recording      writes tests/pictures/run.json
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from streaming.kafka.embedded import EmbeddedBroker
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import Service, called, channel_topics, status, write_config

HERE = Path(__file__).parent
FILE = HERE / "run.json"
GROUPS = {"G0": ["A", "B", "C"], "G1": ["B", "C", "D"]}


def labelled(label: int) -> tuple[Record, str]:
    return Record(b"IBM", b"%d" % label, [("label", b"%d" % label)]), f"label {label}"


def plain(channel: str | None, text: str) -> tuple[Record, str]:
    key = None if channel is None else channel.encode()
    return Record(key, text.encode()), f"{channel or 'no'} key"


def published(sender: str, group: str, text: str) -> tuple[Record, str]:
    return Record(
        sender.encode(), text.encode(), [("group", group.encode())]
    ), f"{sender} to {group}"


def sent(sender: str, to: str, text: str) -> tuple[Record, str]:
    return Record(sender.encode(), text.encode(), [("to", to.encode())]), f"{sender} to {to}"


STORIES: dict[str, list[tuple[str, list[tuple[Record, str]]]]] = {
    "channel": [
        ("Label 0 is next: it is delivered.", [labelled(0)]),
        ("2 and 3 come before 1: they are held.", [labelled(2), labelled(3)]),
        ("1 comes, and frees them.", [labelled(1)]),
        ("2 comes again: a duplicate, rejected.", [labelled(2)]),
        ("5 comes before 4: held.", [labelled(5)]),
        ("4 never comes. An operator gives it up: a gap, announced; 5 is delivered.", []),
    ],
    "label": [
        ("IBM's first record gets label 0.", [plain("IBM", "a")]),
        ("Each channel counts for itself.", [plain("SAP", "b"), plain("IBM", "c")]),
        ("d has no key, so no channel: rejected, and nothing is counted.", [plain(None, "d")]),
        ("It goes on where it was.", [plain("IBM", "e"), plain("SAP", "f")]),
        ("An operator resets IBM: it will begin again, in a higher epoch.", []),
        (
            "g gets label 0 of that epoch; SAP does not notice.",
            [plain("IBM", "g"), plain("SAP", "h")],
        ),
    ],
    "group": [
        ("x sends to G0: A, B and C get it.", [published("x", "G0", "a")]),
        ("y sends to G1: B, C and D get it.", [published("y", "G1", "b")]),
        (
            "Both send at once: B and C, who are in both groups, see one order.",
            [published("y", "G1", "c"), published("x", "G0", "d")],
        ),
        ("x sends again: behind d, for everybody.", [published("x", "G0", "e")]),
    ],
    "multicast": [
        ("p1 sends to p2 and p3.", [sent("p1", "p2,p3", "a")]),
        ("p2 has read it and sends to p1 and p3: p3 gets it behind a.", [sent("p2", "p1,p3", "b")]),
        (
            "p3 and p1 send at once: p2, who gets both, and all others see one order.",
            [sent("p3", "p1,p2", "c"), sent("p1", "p2,p3", "d")],
        ),
    ],
}


COMMANDS = {"channel": "skip", "label": "reset"}
"""What an operator does where a step sends nothing, to channel IBM."""


def record() -> dict[str, Any]:
    """Run the stories on a broker and a service of their own."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker() as broker:
        topics = {name: channel_topics(f"{name}.") for name in STORIES}
        create_topics(broker.bootstrap, {each["input"]: 1 for each in topics.values()})
        more = {"channel": {}, "label": {}, "group": {"groups": GROUPS}, "multicast": {}}
        pipelines = {name: {"discipline": name, **more[name], **topics[name]} for name in STORIES}
        config = write_config(Path(folder), broker.bootstrap, pipelines)
        with Service(config) as service:
            found = {
                name: [
                    _step(broker.bootstrap, config, service, name, topics[name], *each)
                    for each in story
                ]
                for name, story in STORIES.items()
            }
            assert service.stop() == 0, service.said()
    return found


def _step(
    bootstrap: str,
    config: Path,
    service: Service,
    name: str,
    topics: dict[str, str],
    said: str,
    given: Any,
) -> dict[str, Any]:
    """Send what a step sends, wait until it was worked through, and read what came of it."""
    before = _written(bootstrap, topics)
    arrived = _seen(config, name)
    if given:
        produce(bootstrap, topics["input"], [each for each, _ in given])
        service.until(lambda: _seen(config, name) == arrived + len(given))
    else:
        code, _, err = called(COMMANDS[name], config, "--channel", "IBM", "--pipeline", name)
        assert code == 0, err
    after = _written(bootstrap, topics)
    step: dict[str, Any] = {
        "said": said,
        "sent": [{"id": record.value.decode(), "what": what} for record, what in given],
        "delivered": {
            key: new
            for key, each in after[0].items()
            if (new := each[len(before[0].get(key, [])) :])
        },
        "rejected": after[1][len(before[1]) :],
        "held": status(config)[name]["held"],
    }
    if name == "label":
        step["labels"] = _labels(bootstrap, topics["output"], step["delivered"])
    return step


def _labels(bootstrap: str, topic: str, delivered: dict[str, list[str]]) -> dict[str, str]:
    """Return the label of each of these records."""
    new = {text for each in delivered.values() for text in each}
    return {
        each.value.decode(): each.header("label").decode()
        for each in read_all(bootstrap, topic)
        if each.value.decode() in new
    }


def _seen(config: Path, name: str) -> int:
    return int(status(config)[name]["in"] or 0)


def _written(bootstrap: str, topics: dict[str, str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return what was delivered to each key, and what was rejected, so far."""
    try:
        out, rejects = (read_all(bootstrap, topics[role]) for role in ("output", "rejects"))
    except Exception as error:  # noqa: BLE001
        assert "UNKNOWN_TOPIC" in str(error), error
        return {}, []
    delivered: dict[str, list[str]] = {}
    for each in out:
        delivered.setdefault(each.key.decode(), []).append(each.value.decode())
    return delivered, [each.value.decode() for each in rejects]


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), indent=1) + "\n")
