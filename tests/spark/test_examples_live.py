"""The examples' programs against one running service, and what passes through it untouched."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.kafka_helpers import create_topics, read_all
from tests.service_helpers import WarmService, called, verify, write_config
from tests.warm import python_path

EXAMPLES = Path(__file__).parents[2] / "examples"
PIPELINES = tomllib.loads((EXAMPLES / "clients.toml").read_text())["pipelines"]
NUMBER = re.compile(r"(?<![\d.])\d+(?![\d.])")
TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
pytestmark = pytest.mark.timeout(900)


class Example:
    """A program at work; it says what it does on standard output."""

    def __init__(self, name, *arguments):
        words = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": python_path()},
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(30)
        self.process.stdout.close()

    def said(self, limit_s=240):
        """All that it says until its end, which must be a good one."""
        out, _ = self.process.communicate(timeout=limit_s)
        assert self.process.returncode == 0, out
        return out.splitlines()


def test_every_client_does_what_its_example_says(broker, topic_prefix, tmp_path):
    prefix = topic_prefix.removesuffix(".")
    names = {name: f"{prefix}-{name}" for name in PIPELINES}
    tables = {names[name]: dict(table) for name, table in PIPELINES.items()}
    tables[names["asking"]]["gap"] = PIPELINES["asking"]["gap"] | {
        "after": "30 s"
    }  # a busy machine
    config = write_config(tmp_path, broker.bootstrap, tables)
    failed = f"{names['orders']}.failed"
    create_topics(broker.bootstrap, dict.fromkeys([f"{each}.in" for each in names.values()], 2))
    with WarmService(config) as service:
        service.until(lambda: "running" in service.said())
        created = called("node", "create", config, "printer", "bob", "--limit", 240)
        assert created[0] == 0, created
        where = broker.bootstrap
        with (
            Example("cloudevents", where, names["events"]) as events,
            Example("market", where, names["market"], tmp_path / "ledger") as market,
            Example("bus", where, names["bus"]) as bus,
            Example("parallel", where, names["orders"], failed) as orders,
            Example("joining", where, names["readings"]) as joining,
        ):
            heard = [bus.process.stdout.readline() for _ in range(3)]
            assert heard[2] == "ann holds printer; now destroy it\n", heard
            destroyed = called("node", "destroy", config, "printer", "--limit", 240)
            assert destroyed[0] == 0, destroyed
            said = {"events": events.said(), "market": market.said(), "bus": bus.said()}
            said["orders"], said["joining"] = orders.said(), joining.said()
        with (
            Example("lossy", where, names["asking"], names["patient"], 30, 600) as lossy,
            Example("flush", where, names["bus"]) as flush,
        ):
            said["flush"] = flush.said()
            said["lossy"] = lossy.said(limit_s=600)
        assert service.stop() == 0
    _judge(said)
    code, told = verify(config, "--causes", "causes")
    assert code == 0, told
    for name, delivered in (("events", 5), ("market", 10), ("bus", 4 + 5)):
        found = read_all(broker.bootstrap, f"{names[name]}.out")
        messages = [each for each in found if each.header("notice") is None]
        assert len(messages) == delivered
        traced = [each.header("traceparent") for each in messages if each.key != b"eve"]
        assert traced == [TRACE] * len(traced)
    (reject,) = read_all(broker.bootstrap, failed)
    assert (reject.key, reject.value) == (b"customer-1", b"3")
    assert reject.header("reject-reason") == b"refused"


def _judge_lossy(said):
    asking, patient, gone = ([*map(int, NUMBER.findall(line))] for line in said)
    assert asking[1] == patient[1] == 20 * 31
    assert asking[0] > 0 < patient[0]
    assert patient[2:] == [0, patient[0]], "what is lost is given up"
    assert asking[2] + asking[3] == asking[0]
    assert asking[2] > 0, "what is asked for comes back"
    assert gone[0] == 10 <= gone[1] <= 8 * 10, "a sender that is gone is asked eight times at most"


def _judge(said):
    _judge_lossy(said["lossy"])
    for source in "ab":
        mine = [line for line in said["events"] if line.startswith(f"/{source}-")]
        numbers = (1, 2, 3) if source == "a" else (1, 2)
        assert mine == [f"/{source}-{n} {n} kWh" for n in numbers]
    assert said["market"] == [
        "ann booked stocks: IBM 101 from exchange",
        "ann booked bonds: T10 4.2 from exchange",
        "ann booked stocks: IBM 102 from exchange",
        "ann booked bonds: IBM seen at 102 from ann",
    ]
    news = [f"eve got news {number}" for number in range(3)]
    readings = [f"reading {label}" for label in (7000, 7001, 7002)]
    assert said["joining"] == ["a note", *readings, "this is all that was sent so far"]
    assert said["flush"] == [*news, "eve has all that was sent before the call"]
    tries = [line for line in said["orders"] if line.startswith("The handler failed for ")]
    assert tries
    assert sorted(set(said["orders"]) - set(tries)) == [
        "59 orders billed, 3 tries failed",
        "customer-1: order 3 was rejected: the order has no price",
    ]
    (end,) = said["bus"]
    assert end.startswith("printer was destroyed at ")
    assert end.endswith(" by bob")
