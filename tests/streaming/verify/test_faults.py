"""Names of faults, and which witnesses are shown."""

import re
from pathlib import Path

from streaming.verify import channel, group, multicast
from streaming.verify.faults import ANOMALIES, Verdict

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
