"""Spark's own files in a pipeline's checkpoint: its two logs, the query's id, the state.

`offsets/<batch>` is written when a batch is planned, `commits/<batch>` when it is done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pyarrow import fs

from streaming.errors import SequencerError
from streaming.spark import snapshots
from streaming.spark.snapshots import state_version
from streaming.storage.files import Files, local_path
from streaming.storage.syncing import METADATA, Syncing

LOG_FORMAT = {"spark.sql.streaming.offsetLog.formatVersion": "1"}
"""The setting for the format of Spark's offset log: the one that is read here."""
RESTORE = (
    "Restore it from a backup of the checkpoint, or start with a new checkpoint folder "
    "(docs/backup.md)."
)
UNREAD = re.compile(rb'"(caught_up_ms|behind_ms)": ?(\d+)')
"""In a source's position (`streaming.source.positions`)."""


class SparkFiles:
    """Reads Spark's files at ``location``; syncs them to disk if it is a local folder."""

    def __init__(self, location: str, spark: Mapping[str, str], *, synced: bool) -> None:
        self.location = location
        self._files = Files(location, spark, synced=synced)
        self._syncing = Syncing(local_path(location)) if self._files.local else None
        self._looked_at_snapshots = False

    def has_only(self, *names: str) -> bool:
        """Return whether there are no other files or folders than these."""
        return all(name in names for name, _ in self._files.names())

    def forget(self, name: str) -> None:
        """Remove a file inside, or a folder with what is in it."""
        self._files.remove(name)

    def query(self) -> str:
        """Return the id that Spark gave its query; empty if it never started."""
        if self._files.kind(METADATA) != fs.FileType.File:
            return ""
        return str(json.loads(self._files.read(METADATA))["id"])

    def planned(self) -> int:
        """Return the last batch that was planned, -1 if there is none."""
        return self._last("offsets")

    def done(self) -> int:
        """Return the last batch that is logged as done, -1 if there is none."""
        return self._last("commits")

    def batch_in_doubt(self) -> int:
        """Return the batch that was planned but not logged as done, -1 if there is none."""
        planned = self.planned()
        return planned if planned > self.done() else -1

    def logged(self, batch: int) -> bytes:
        """Return a planned batch's entry in the offset log: the ends of all sources, its time."""
        return self._files.read(f"offsets/{batch}")

    def logged_if_kept(self, batch: int) -> bytes | None:
        """Return a planned batch's log entry; None if Spark has removed it, as it does old ones."""
        is_kept = self._files.kind(f"offsets/{batch}") == fs.FileType.File
        return self.logged(batch) if is_kept else None

    def newest_ms(self) -> int:
        """Return the largest time of the batches that Spark's log still has, 0 if it has none."""
        return max((batch_ms(self.logged(batch)) for batch in self._batches("offsets")), default=0)

    def mend(self) -> list[str]:
        """Remove what a power cut left torn, if nothing depends on it; return the files' names.

        Only the last entry of each log can be torn, as the others were synced. Without syncing more
        of them can be (`torn_entries`). If none is done then, the state is removed. If the cause is
        not a power cut, the progress in Kafka shows it (`streaming.service.histories`). A snapshot
        of the state can be torn until a batch behind it is done: the one before it, and all changes
        since, are there. SequencerError where nothing is left of the log to go on from.
        """
        planned = self._batches("offsets")
        done = self._batches("commits")
        torn = torn_entries(planned, done, self._has_whole)
        whole = [batch for batch in planned if ("offsets", batch) not in torn]
        if 0 in planned:
            is_anew = {*done} <= {batch for _, batch in torn}
            goes_on = not is_anew or self.has_beginning()
        else:  # Spark begins behind the last but one
            goes_on = len(whole) >= 2
        if torn and not goes_on:
            raise SequencerError(
                f"{self.location}/offsets and commits have no two batches left that are whole.",
                "Nothing was changed.",
                RESTORE,
            )
        for log, batch in torn:
            self._remove_logged(f"commits/{batch}")
            self.forget_later_state()
            if log == "offsets":  # last: if this start ends before, the next one finds the plan
                self._remove_logged(f"offsets/{batch}")
        names = [f"{log}/{batch}" for log, batch in torn]
        if self.done() < 0:
            self._remove("state")
            is_there = self._files.kind(METADATA) == fs.FileType.File
            if is_there and not _is_json(self._files.read(METADATA)):
                self._remove_logged(METADATA)
            if not is_there and self.planned() >= 0:  # it runs in a query of another name
                names.append(METADATA)
        return names + self._remove_torn_snapshots()

    def has_beginning(self) -> bool:
        """Return whether batch 0 begins without state."""
        return True

    def _has_whole(self, log: str, batch: int) -> bool:
        return _is_whole(self._files.read(f"{log}/{batch}"))

    def _remove_torn_snapshots(self) -> list[str]:
        if not self._files.local or self._looked_at_snapshots:
            return []  # no power cut lies between two starts of one process
        self._looked_at_snapshots = True
        folder = Path(local_path(self.location))
        names = [str(each.relative_to(folder)) for each in snapshots.torn(folder / "state")]
        for name in names:
            self._remove_logged(name)
        return names

    def forget_later_state(self) -> None:
        """Remove the state of batches after the last one that is done, which will run anew.

        Spark begins with the newest snapshot below the version that it needs, no matter which
        attempt wrote it.
        """
        version = self.done() + 1
        for name, is_file in list(self._files.names("state", recursive=True)):
            if is_file and (state_version(name.rpartition("/")[2]) or 0) > version:
                self._remove_logged(name)

    def forget_planned(self) -> None:
        """Remove the batch in doubt from the log, and its state: another one takes its number."""
        self.forget_later_state()  # first: while the batch is planned, its state is its own
        self._remove_logged(f"offsets/{self.batch_in_doubt()}")

    def sync_logs(self) -> None:
        """Sync Spark's logs to disk before the batch that they plan runs.

        If the service does not wait for the disk, sync at least the query's id.
        """
        if self._syncing is None:
            return
        if self._files.synced:
            self._syncing.logs()
        else:
            self._syncing.query_id()

    def sync_state(self) -> None:
        """Sync the state to disk after a batch, before the log says that it is done."""
        if self._syncing is not None and self._files.synced:
            self._syncing.state()

    def take_place_of(self, other: SparkFiles, state_partitions: int) -> None:
        """Continue reading where another checkpoint's last batch ended, as this one's batch 0.

        The query must be another one, so that the other's progress in Kafka does not apply to it.
        Batch 0 of this one must be the only one.
        """
        done = other._files.read(f"offsets/{other._last('commits')}")
        version, settings, *sources = done.decode().splitlines()
        first = json.loads(settings)
        first["conf"]["spark.sql.shuffle.partitions"] = str(state_partitions)
        offsets = "\n".join([version, json.dumps(first, separators=(",", ":")), *sources])
        self._put("offsets/0", offsets.encode())
        self._files.remove("sources")
        for name, is_file in other._files.names("sources", recursive=True):
            if is_file and not name.rpartition("/")[2].startswith("."):
                self._put(name, other._files.read(name))

    def _put(self, name: str, content: bytes) -> None:
        """Write a file of Spark's, and remove the checksum file of an older one."""
        self._remove_logged(name)
        self._files.write(name, content)

    def _remove_logged(self, name: str) -> None:
        folder, slash, last = name.rpartition("/")
        for each in (name, f"{folder}{slash}.{last}.crc"):
            self._remove(each)

    def _remove(self, name: str) -> None:
        """Remove a file or folder; a new one of its name may look like the one that was synced."""
        self._files.remove(name)
        if self._syncing is not None:
            self._syncing.begin_again()

    def ends(self, batch: int) -> dict[str, Any]:
        """Return the end offsets of a planned batch, of all sources; empty for no batch.

        (`streaming.source.positions`)
        """
        if batch < 0:
            return {}
        lines = self._files.read(f"offsets/{batch}").decode().splitlines()
        # a version, then Spark's own; a line for each source follows, "-" for none
        sources = [json.loads(line) for line in lines[2:] if line != "-"]
        return {
            name: of for each in sources if isinstance(each, dict) for name, of in each.items()
        }  # ticks are numbers

    def _last(self, log: str) -> int:
        return max(self._batches(log), default=-1)

    def _batches(self, log: str) -> list[int]:
        """Return the batches that a log has an entry of, in their order."""
        names = (name.rpartition("/")[2] for name, _ in self._files.names(log))
        return sorted(int(name) for name in names if name.isdigit())


def torn_entries(
    planned: Iterable[int], done: Iterable[int], is_whole: Callable[[str, int], bool]
) -> list[tuple[str, int]]:
    """Return what is torn in Spark's logs, or rests on what is: (log, batch), the last one first.

    A plan goes if the batch before it is not done any more. It also goes if it is torn, or the one
    before it is, which Spark reads, too; then its batch is not done any more either. ``is_whole``
    says it of a log's entry.
    """
    plans, ends, torn = sorted(planned), sorted(done), []
    while plans or ends:
        if ends and not is_whole("commits", ends[-1]):
            torn.append(("commits", ends.pop()))
            continue
        is_left = bool(plans) and plans[-1] > max(ends, default=-1) + 1
        if not is_left and all(is_whole("offsets", batch) for batch in plans[-2:]):
            break
        torn.append(("offsets", plans.pop()))
        ends = [batch for batch in ends if batch != torn[-1][1]]
    return torn


def batch_ms(logged: bytes) -> int:
    """Return a batch's time, in ms, from its entry in the offset log; 0 if it has none."""
    own = b"".join(logged.splitlines()[1:2])
    return int(json.loads(own or b"{}").get("batchTimestampMs", 0))


def unread(logged: bytes) -> dict[str, int]:
    """Return the times that a batch has if it leaves records unread; of two sources the earlier."""
    times = [(name.decode(), int(time_ms)) for name, time_ms in UNREAD.findall(logged)]
    return {name: min(time_ms for each, time_ms in times if each == name) for name, _ in times}


def _is_whole(entry: bytes) -> bool:
    """Return whether a log entry is complete: a version, then lines of JSON or "-" (no offset)."""
    version, *lines = entry.decode(errors="replace").split("\n")
    entries = [line for line in lines if line != "-"]
    return bool(re.fullmatch(r"v\d+", version) and entries) and all(map(_is_json, entries))


def _is_json(text: str | bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
