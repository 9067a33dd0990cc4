"""Calls of `sequencer rescale` that are refused before Spark starts."""

import pytest

from tests.service_helpers import called


@pytest.mark.parametrize(
    ("partitions", "told"),
    [("8", "--state-partitions 8 is more than --shards 4"), ("2", "No pipeline has a checkpoint")],
)
def test_what_cannot_be_moved(config, tmp_path, partitions, told):
    path = config(service={"checkpoint": str(tmp_path / "old")})
    new = tmp_path / "new"
    asked = ("--shards", "4", "--state-partitions", partitions, "--to", str(new))
    code, _, err = called("rescale", path, *asked)
    assert code == 2
    assert told in err
    assert not new.exists()


@pytest.mark.parametrize("to", ["", "/"])
def test_a_checkpoint_has_a_place(config, to):
    code, _, err = called(
        "rescale", config(), "--shards", "4", "--state-partitions", "2", "--to", to
    )
    assert code == 2
    assert f"--to {to!r} is not a place for a checkpoint." in err
