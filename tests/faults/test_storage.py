"""Files of a checkpoint that are damaged while the service is away: it goes on, or says why not.

Nothing is lost or doubled in silence; with the file put back, the service goes on.
"""

import random

import pytest

from tests.faults.channels import KEYS, judge, prepare, some_messages, value_of
from tests.faults.damage import DAMAGES, FIGURES, KINDS, newest
from tests.faults.disks import small_disk
from tests.kafka_helpers import Record, produce
from tests.service_helpers import WarmService, run_once, status

pytestmark = pytest.mark.timeout(1800)
SIZE = 20_000
LATE = b"late"
"""A channel whose first message comes last: what waits is a file."""
PER_TURN = 3


class Turns:
    """A service of channels that runs again and again, each time on a few more messages."""

    def __init__(self, broker, prefix, folder):
        self.bootstrap, self.prefix = broker.bootstrap, prefix
        self.config = prepare(broker, prefix, folder)
        self.folder = folder / "checkpoints" / "p"
        self.rng = random.Random(1)
        self.turns = self.sent = 0

    def send(self):
        first = self.turns * PER_TURN
        batch = some_messages(first, PER_TURN, self.rng, [*KEYS, LATE], SIZE)
        batch = [r for r in batch if r.key != LATE or r.headers[0][1] != b"0"]
        self._produce(batch)
        self.turns += 1

    def _produce(self, batch):
        produce(self.bootstrap, f"{self.prefix}in", batch)
        self.sent += len(batch)

    def judge(self):
        self._produce([Record(LATE, value_of(LATE, 0, SIZE), [("label", b"0")])])
        run_once(self.config)
        count = self.turns * PER_TURN
        figures = status(self.config)["p"]
        judge(self.bootstrap, self.prefix, count, self.sent, figures, [*KEYS, LATE], SIZE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_named_or_does_not_matter(broker, topic_prefix, tmp_path, kind):
    turns = Turns(broker, topic_prefix, tmp_path)
    for _ in range(2):
        turns.send()
        run_once(turns.config)
    for damage in DAMAGES.values():
        turns.send()
        path = newest(turns.folder, KINDS[kind])
        original = path.read_bytes()
        damage(path)
        with WarmService(turns.config, "--once") as service:
            ended, said = service.wait(), service.said()
        assert not (ended and kind in FIGURES), said
        if ended:
            assert "estore" in said, said
            assert path.name in said or "A file of the checkpoint's state" in said, said
            assert "Traceback" not in said
            path.write_bytes(original)  # this file alone: other partitions may have written
            run_once(turns.config)
        elif kind == "held":
            path.write_bytes(original)  # nobody has read it yet
    turns.judge()


@pytest.mark.slow
def test_a_disk_that_is_full_of_other_things(broker, topic_prefix, tmp_path):
    """Spark's logs, its state, held records: nothing can be written until there is room again."""
    with small_disk(tmp_path / "checkpoints", "size=64m") as disk:
        turns = Turns(broker, topic_prefix, tmp_path)
        turns.send()
        run_once(turns.config)
        for left in (0, 8_192, 65_536):
            turns.send()
            others = disk.path / "others"
            fill(others, left)
            with WarmService(turns.config, "--once") as service:
                assert service.wait() == 1, service.said()
                assert "No space left on device" in service.said()
                assert "Traceback" not in service.said()
            others.unlink()
            run_once(turns.config)
        turns.judge()


def fill(path, left):
    """Write a file until the file system has but so many bytes left."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(max(0, file.tell() - left))
