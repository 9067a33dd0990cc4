"""A service with channels and groups, of which some wait, and its console: what pictures are taken of.

heavy … python -m tests.pictures.shop      runs it until Ctrl-C, to look at it in a browser
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from streaming.console.access import Access
from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.ports import free_port
from tests.console_helpers import serving
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import Service, called, channel_topics, status, write_config

TOKEN = "a-token-of-the-pictures"
WAITING = (b"IBM", b"SAP", b"ORCL", b"MSFT")
LABELS, MISSING, AGAIN = 30, 26, 3
GROUPS = {f"G{n}": list("ABCDEFGHIJ"[n : n + 4]) for n in range(6)}


def arrivals(key: bytes) -> list[Record]:
    """A channel whose labels come in threes that are turned round; one is missing, one comes twice."""
    order = [turn + 2 - at for turn in range(0, LABELS, 3) for at in range(3)]
    labels = [*(label for label in order if label != MISSING), AGAIN]
    return [
        Record(key, b'{"price": %d, "venue": "XNYS"}' % (100 + label), [("label", b"%d" % label)])
        for label in labels
    ]


@contextmanager
def shop() -> Iterator[SimpleNamespace]:
    """Run it: trades (channels), market (groups by the batch), floor (groups on nodes).

    The pipeline parcels is where the tutorial has got to when it asks who waits.
    """
    with (
        tempfile.TemporaryDirectory(prefix="shop-") as name,
        EmbeddedBroker() as broker,
    ):
        folder = Path(name) / "shop"
        folder.mkdir()
        pipelines: dict[str, dict[str, Any]] = {
            "trades": {},
            "parcels": {},
            "market": {"discipline": "group", "groups": GROUPS},
            "floor": {
                "discipline": "group",
                "groups": GROUPS,
                "sequencing": "network",
                "nodes": 3,
            },
        }
        topics = {each: channel_topics(f"{each}.") for each in pipelines}
        partitions = {name: 1 if "groups" in each else 2 for name, each in pipelines.items()}
        create_topics(
            broker.bootstrap, {topics[name]["input"]: n for name, n in partitions.items()}
        )
        given = {each: {**more, **topics[each]} for each, more in pipelines.items()}
        metrics = f"127.0.0.1:{free_port()}"
        config = write_config(folder, broker.bootstrap, given, metrics=metrics)
        for key in WAITING:
            produce(broker.bootstrap, topics["trades"]["input"], arrivals(key))
        parcel = [
            Record(b"P1", value, [("label", label)])
            for label, value in ((b"0", b"collected"), (b"2", b"delivered"))
        ]
        produce(broker.bootstrap, topics["parcels"]["input"], parcel)
        with serving(config, Access(TOKEN)) as port, Service(config) as service:
            service.until(lambda: status(config)["trades"]["blocked"] == len(WAITING))
            service.until(lambda: status(config)["parcels"]["blocked"] == 1)
            stop = threading.Event()
            feeding = threading.Thread(target=feed, args=(broker.bootstrap, topics, stop))
            feeding.start()
            try:
                words = ("--pipeline", "trades", "--by", "ann", "--why", "the feed lost it")
                code, _, err = called("skip", config, "--channel", "SAP", *words)
                assert code == 0, err
                yield SimpleNamespace(port=port, config=config, service=service)
            finally:
                stop.set()
                feeding.join()
            assert service.stop() == 0, service.said()


def feed(bootstrap: str, topics: dict[str, dict[str, str]], stop: threading.Event) -> None:
    """Send a little of everything, twice a second, until told to stop."""
    turn = 0
    while not stop.wait(0.5):
        late = [Record(b"K%d" % n, b"{}", [("label", b"%d" % (turn ^ 1))]) for n in range(12)]
        produce(bootstrap, topics["trades"]["input"], late)
        for name in ("market", "floor"):
            sent = [
                Record(b"s%d" % (n % 3), b"%d" % turn, [("group", b"G%d" % n)]) for n in range(6)
            ]
            produce(bootstrap, topics[name]["input"], sent)
        turn += 1


if __name__ == "__main__":
    with shop() as running:
        print(f"http://127.0.0.1:{running.port}/, token {TOKEN}; Ctrl-C ends it", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
