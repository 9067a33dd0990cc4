"""Large rows stay in files while a batch runs: they are gone behind it, and a lost one loses nothing.

The service's temporary files are in a folder of the test's own (TMPDIR), with a short name: else
they are elsewhere.
"""

import random
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.channels import judge, prepare, some_messages
from tests.faults.disks import small_disk
from tests.kafka_helpers import produce
from tests.service_helpers import Service, status

pytestmark = pytest.mark.timeout(600)
KEYS = [b"channel-%03d" % n for n in range(200)]
COUNT, SIZE = 100, 600
"""Messages of a channel, and their bytes: 12 MB."""
LIMIT_SECONDS = 90


class Watching(threading.Thread):
    """Sees which files of rows come and go under a folder; may ``remove`` the first few."""

    def __init__(self, folder, remove=0):
        super().__init__(daemon=True)
        self.folder, self.remove = folder, remove
        self.seen, self.ended = {}, threading.Event()

    def there(self):
        with suppress(FileNotFoundError):  # a folder that went while it was looked through
            return [*self.folder.glob("sequencer-run-*/rows/*/*")]
        return self.there()

    def run(self):
        while not self.ended.wait(0.002):
            for path in self.there():
                with suppress(OSError):
                    self.seen[path] = max(path.stat().st_size, self.seen.get(path, 0))
                    if len(self.seen) <= self.remove and self.seen[path]:
                        path.unlink()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="rows-", dir="/tmp") as made:
        yield Path(made)


def send(broker, prefix):
    messages = some_messages(0, COUNT, random.Random(1), KEYS, SIZE)
    produce(broker.bootstrap, f"{prefix}in", messages)
    return len(messages)


def finished(config, sent):
    """Whether all was taken; a service that runs has a moment between two batches."""
    figures = status(config)["p"]
    return figures["in"] == sent and figures["held"] == 0


def test_rows_are_in_files_for_a_batch_and_lost_ones_are_written_again(
    broker, topic_prefix, tmp_path, folder
):
    config = prepare(broker, topic_prefix, tmp_path)
    sent = send(broker, topic_prefix)
    with (
        Watching(folder, remove=3) as watching,
        Service(config, environment={"TMPDIR": str(folder)}) as service,
    ):
        service.until(lambda: "cannot be read again" in service.said(), LIMIT_SECONDS)
        service.until(lambda: finished(config, sent), LIMIT_SECONDS)
        service.until(lambda: not watching.there(), LIMIT_SECONDS)
        assert sum(watching.seen.values()) > COUNT * len(KEYS) * SIZE, "packs, and what is written"
        assert service.stop() == 0, service.said()
        assert "Traceback" not in service.said()
    assert not [*folder.iterdir()]
    judge(broker.bootstrap, topic_prefix, COUNT, sent, status(config)["p"], KEYS, SIZE)


def test_a_disk_without_room_for_rows_is_waited_for(broker, topic_prefix, tmp_path, folder):
    config = prepare(broker, topic_prefix, tmp_path)
    sent = send(broker, topic_prefix)
    with (
        small_disk(folder / "t", "size=6m") as disk,
        Service(config, environment={"TMPDIR": str(disk.path)}) as service,
    ):
        service.until(lambda: "could not be written to" in service.said(), LIMIT_SECONDS)
        assert "No space left on device" in service.said()
        assert "TMPDIR" in service.said()
        time.sleep(2)
        disk.mend()
        service.until(lambda: finished(config, sent), LIMIT_SECONDS)
        assert service.stop() == 0, service.said()
        assert "Traceback" not in service.said()
    judge(broker.bootstrap, topic_prefix, COUNT, sent, status(config)["p"], KEYS, SIZE)
