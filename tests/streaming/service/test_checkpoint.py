"""What a checkpoint folder tells and keeps."""

import pytest

from streaming.errors import ConfigError
from streaming.service.checkpoint import Checkpoint, Identity


def test_a_checkpoint_keeps_what_may_not_change(tmp_path):
    checkpoint = Checkpoint(str(tmp_path), "p")
    first = Identity("channel", 16, 2, {"kind": "linear"}, "key")
    assert checkpoint.pin(first) == first
    more_cores = Identity("channel", 16, 8, {"kind": "linear"}, "key")
    assert checkpoint.pin(more_cores).state_partitions == 2
    for changed in (
        Identity("channel", 32, 2, {"kind": "linear"}, "key"),
        Identity("channel", 16, 2, {"kind": "cyclic"}, "key"),
        Identity("channel", 16, 2, {"kind": "linear"}, "value"),
        Identity("channel", 16, 2, {"kind": "linear"}, "key", inputs=["another"]),
    ):
        with pytest.raises(ConfigError, match="was made with"):
            checkpoint.pin(changed)


def test_the_batch_in_doubt_is_the_one_planned_but_not_done(tmp_path):
    checkpoint = Checkpoint(str(tmp_path), "p")
    assert checkpoint.batch_in_doubt() == -1
    for name in ("offsets/0", "offsets/1", "commits/0", "offsets/.2.crc"):
        path = tmp_path / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert checkpoint.batch_in_doubt() == 1
    (tmp_path / "p" / "commits" / "1").touch()
    assert checkpoint.batch_in_doubt() == -1
