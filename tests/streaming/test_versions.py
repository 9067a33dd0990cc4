"""An executor that comes after the check of a start may have another version of the code."""

import pyarrow as pa
import pytest

from streaming import versions
from streaming.arrow.pack import _pack_task
from streaming.errors import SequencerError
from streaming.sink.sink import Sink


@pytest.fixture(autouse=True)
def anew():
    versions.require_drivers.cache_clear()
    yield
    versions.require_drivers.cache_clear()


def test_a_worker_like_the_driver_works(monkeypatch):
    versions.require_drivers()  # on one machine nobody tells
    versions.require_drivers.cache_clear()
    for name, value in versions.to_environment().items():
        monkeypatch.setenv(name, value)
    versions.require_drivers()


@pytest.mark.parametrize("changed", ["Python", "numpy", "this service"])
def test_no_stage_works_in_another_version(monkeypatch, changed):
    """Its packs, its state and what it writes might be others than those of the batch's first run."""
    own = versions.versions()
    with monkeypatch.context() as driver:
        driver.setattr(versions, "versions", lambda: {**own, changed: "0"})
        ((name, value),) = versions.to_environment().items()
    monkeypatch.setenv(name, value)
    for _ in range(2):
        with pytest.raises(SequencerError, match=f"{changed} is {own[changed]}, the driver's is 0"):
            versions.require_drivers()
    with pytest.raises(SequencerError, match="is not like the driver"):
        _pack_task(iter([pa.RecordBatch.from_pydict({})]), lambda table: table)
    with pytest.raises(SequencerError, match="is not like the driver"):
        next(Sink(None)(iter([])))
