"""The table of `inspect`, where a discipline holds nothing."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from sequencer.channels import Arrivals, Rules, ShardState, step
from sequencer.labels import LinearLabels
from streaming.cli.inspect import _table
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.label.describe import describe


def test_channels_that_are_given_their_labels(capsys):
    none = pa.nulls(2, pa.binary())
    arrivals = Arrivals(pa.array([b"a", b"b"]), none, none, np.zeros(2, np.bool_))
    rules = Rules(LinearLabels(), pass_unlabelled=True)
    shard = SimpleNamespace(state=step(ShardState.empty(), arrivals, 7, rules).state)
    _table([*describe(shard)], DISCIPLINES["label"].shown, "channel", 10)
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.split() == ["channel", "epoch", "next", "active"]
    assert [row.split()[:3] for row in rows] == [["a", "7", "1"], ["b", "7", "1"]]
