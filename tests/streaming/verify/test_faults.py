"""Names of faults, and which witnesses are shown."""

import re
from pathlib import Path

import pytest

from streaming.verify import channel, group, multicast
from streaming.verify.accounts import Material, Settings
from streaming.verify.faults import ANOMALIES, Verdict
from streaming.verify.histories import Histories
from streaming.verify.records import Record

PAGE = Path(__file__).parents[3] / "docs" / "guarantees.md"


def test_every_fault_with_a_name_of_elle_s_is_one_that_a_judge_finds():
    documented = f"{channel.__doc__} {group.__doc__} {multicast.__doc__}".replace("\n", "")
    named = {name.replace(" ", "") for name in re.findall(r"`([a-z- ]+)`", documented)}
    assert named >= ANOMALIES.keys()


def test_the_page_has_each_of_these_names():
    rows = re.findall(r"^\| `([A-Za-z0-9-]+)` \| [^|]+ \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    on_page = {name: elle for elle, names in rows for name in re.findall(r"`([a-z-]+)`", names)}
    assert on_page == ANOMALIES


def test_the_smallest_witnesses_come_first():
    verdict = Verdict("p")
    for size in (9, 2, 5):
        verdict.find("acyclic", "x" * size)
    verdict.find("wrong-reason", "y")
    assert verdict.smallest("acyclic", 2) == ["xx", "xxxxx"]
    assert verdict.anomalies == {"acyclic": "G0"}


@pytest.mark.parametrize("kind", ["group", "multicast"])
def test_nobody_looks_for_witnesses_that_are_not_kept(kind, monkeypatch):
    looked, where = [], Histories.where
    monkeypatch.setattr(Histories, "where", lambda *asked: looked.append(1) or where(*asked))
    monkeypatch.setattr("streaming.verify.faults.WITNESSES_MAX", 10)
    own, added = (("group", b"G"),), (("sender", b"p"), ("group-sequence", ...))
    added = (*added, ("group-version", b"0"))
    if kind == "multicast":
        own, added = (("to", b"A"),), (("from", b"p"), ("destination", b"C"), ("timestamp", ...))
    inputs, outputs = [], []
    for n in range(100):
        number = b"%d" % n
        headers = [(name, number if value is ... else value) for name, value in added]
        headers = (*own, *headers, ("sequence", number), ("incarnation", b"17"))
        inputs.append(Record("in", 0, n, 1, b"p", number, own))
        outputs.append(Record("out", 0, n, 1, b"B", number, headers))
    material = Material(outputs, (), (), (), inputs)
    given = {"pipeline": "p", "output": "out", "partitions": {"out": 1}, "due": {}}
    if kind == "multicast":
        verdict = multicast.judge(Settings(**given), material)
    else:
        groups = {"G": frozenset({"A"})}
        verdict = group.judge(group.GroupSettings(**given, groups=groups), material)
    assert verdict.counts["membership"] == 100
    assert len(looked) <= 20
