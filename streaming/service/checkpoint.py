"""The checkpoint folder of a pipeline: what is fixed for its life, its status, batches in doubt.

`<checkpoint>/<pipeline>/` holds Spark's own logs and state, and files of the service:
`identity.json` (written once), `status.json` and `waiting.json` (after batches), `decisions.json`
(`streaming.service.decisions`), `holder.json` (`…service.holder`), `said.json` (`…last_said`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from pyarrow import fs

from streaming import crashes
from streaming.config import Config
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.state_row import FORMATS_READ, STATE_FORMAT
from streaming.errors import (
    ConfigError,
    JobFailed,
    SequencerError,
    StateFormatError,
    StorageUnavailable,
)
from streaming.service.behind import Behind
from streaming.service.holder import Holder, is_locked, lock
from streaming.service.last_said import LastSaid
from streaming.source.positions import offsets_in
from streaming.spark.spark_files import RESTORE, SparkFiles
from streaming.storage.files import local_path
from streaming.storage.syncing import METADATA

IDENTITY = "identity.json"
FORMAT = "format"
STATUS = "status.json"
WAITING = "waiting.json"
DECISIONS = "decisions.json"
LOCK = "lock"
HOLDER = "holder.json"
MOVED = "moved.json"
MOVING = "moving.json"

SHARED = {
    "shards": "set service.shards back, or move the state: sequencer rescale",
    "discipline": "give the pipeline another name",
    "inputs": "set the pipeline's input back, or give the new one a pipeline of its own",
}
"""What may not change in any discipline, and what to do where it did."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a checkpoint began with; ``own`` are the parts that its discipline names."""

    discipline: str
    shards: int
    state_partitions: int
    inputs: list[str] = field(default_factory=list)
    own: dict[str, Any] = field(default_factory=dict)


class Checkpoint(SparkFiles):
    """Reads and writes the service's own files in a pipeline's checkpoint folder.

    ``root`` is a folder or a Hadoop URI (file, hdfs, s3a, gs, …); ``spark``: Spark's properties,
    of which those of Hadoop say where that is and who we are there. ``synced``: whether a folder's
    files are on its disk before anything rests on them (`streaming.storage.syncing`).
    """

    def __init__(
        self,
        root: str,
        pipeline: str,
        spark: Mapping[str, str] | None = None,
        *,
        synced: bool = False,
    ) -> None:
        super().__init__(f"{root.rstrip('/')}/{pipeline}", spark or {}, synced=synced)
        self.pipeline = pipeline
        self._lock: IO[str] | None = None
        self._lock_path = Path(local_path(self.location), LOCK)
        self._holder: Holder | None = None
        self.last_said = LastSaid(self._files, self._is_ours)
        self.behind = Behind(self._files)

    @classmethod
    def of(cls, config: Config, pipeline: str) -> Checkpoint:
        """A pipeline's checkpoint where the configuration says that it is."""
        service = config.service
        return cls(service.checkpoint, pipeline, config.spark, synced=service.sync)

    @property
    def lockable(self) -> bool:
        """Whether the checkpoint is a folder, where locks and renames work."""
        return self._files.local

    @property
    def is_locked(self) -> bool:
        """Whether this process holds its lock, so that no other one works on it."""
        return self._lock is not None

    def pin(self, wanted: Identity, wishes: Container[str] = ()) -> Identity:
        """The checkpoint's identity: ``wanted`` for a new one, else what was pinned.

        The parts named in ``wishes``, the number of state partitions, and the parts that the
        discipline has no remedy for, are wishes that an older checkpoint overrides. Raises
        ConfigError where anything else differs.
        """
        self.require_here()
        self.require_whole()
        pinned = self.identity()
        if pinned is None:
            self.write_identity(wanted)
            return wanted
        self.require_like(pinned, wanted, wishes)
        return pinned

    def require_like(self, pinned: Identity, wanted: Identity, wishes: Container[str] = ()) -> None:
        """ConfigError where what is wanted differs from what was pinned; see :meth:`pin`."""
        for name, remedy in SHARED.items():
            if name not in wishes:
                self._compare(name, getattr(pinned, name), getattr(wanted, name), remedy)
        for name, part in DISCIPLINES[pinned.discipline].fixed.items():
            if part.remedy:
                self._compare(name, pinned.own[name], wanted.own[name], part.remedy)

    def write_identity(
        self, identity: Identity, write: Callable[[str, bytes], None] | None = None
    ) -> None:
        """Write the identity, which stays for the checkpoint's life; by ``write``, if given."""
        plain = asdict(identity)
        content = {FORMAT: STATE_FORMAT, **plain.pop("own"), **plain}
        write = write or (lambda *file: self._files.write(*file, synced=True))
        write(IDENTITY, json.dumps(content, sort_keys=True).encode())

    def require_here(self) -> None:
        """ConfigError where the state was moved to another checkpoint, or not all the way here."""
        moving = self._read(MOVING)
        if moving is not None:
            raise ConfigError(
                f"The state of pipeline {self.pipeline} was not moved all the way from "
                f"{moving['from']} to {self.location}.",
                "Nothing was started: what is here is not whole.",
                "Give the `sequencer rescale` that was interrupted again, or start the service "
                "with the checkpoint that it had.",
            )
        moved = self._read(MOVED)
        if moved is not None:
            raise ConfigError(
                f"The state of pipeline {self.pipeline} was moved from {self.location} to "
                f"{moved['to']} with {moved['shards']} shards.",
                "Nothing was started: messages would be delivered twice.",
                f'Set service.checkpoint = "{moved["to"]}" and service.shards = {moved["shards"]}.',
            )

    def require_whole(self) -> None:
        """SequencerError where what a logged batch needs to go on from is missing or damaged.

        Spark would begin a new query where its name is gone, to which Kafka knows of no progress,
        and plan a batch anew whose offsets are gone. Of several plans `mend` leaves the first.
        """
        planned, done = self._batches("offsets"), self._last("commits")
        if not planned and done < 0:
            return
        last = max(done, 0, *(batch for batch in planned if batch <= done + 1))
        plans = [f"offsets/{batch}" for batch in (last, last - 1) if batch >= 0]
        query = [METADATA] if done >= 0 or not self.lockable else []  # else a power cut may take it
        decided = [DECISIONS] if done >= 0 else []  # the first batch writes them
        for name in (IDENTITY, *query, *plans, *decided):
            if self._files.kind(name) != fs.FileType.File:
                raise self._damaged(name, "is missing, though batches are logged")
        for name in query:
            self._read(name)

    def _damaged(self, name: str, how: str) -> SequencerError:
        return SequencerError(f"{self.location}/{name} {how}.", "Nothing was changed.", RESTORE)

    def mark_moved(self, to: str, shards: int) -> None:
        """Close this checkpoint: no service starts on it any more; see :meth:`require_here`."""
        self._write(MOVED, {"to": to, "shards": shards}, synced=True)

    def was_moved_to(self, to: str) -> bool:
        """Whether it was closed for that one; see :meth:`mark_moved`."""
        return (self._read(MOVED) or {}).get("to") == to

    def begin_move(self, origin: str) -> None:
        """Begin a move to here: no service starts until it ends. Remove what another left."""
        self._write(MOVING, {"from": origin})
        for name, _ in self._files.names():
            if name != MOVING:
                self._files.remove(name)

    def is_moved_from(self, origin: str) -> bool:
        """Whether a move from there to here was begun and did not end."""
        return (self._read(MOVING) or {}).get("from") == origin

    def end_move(self) -> None:
        """Note that the whole state is here; see :meth:`require_here`."""
        self._files.remove(MOVING)

    def _compare(self, name: str, was: Any, now: Any, remedy: str) -> None:
        if was != now:
            before = json.dumps(was)
            raise ConfigError(
                f"pipelines.{self.pipeline}: {name} is {json.dumps(now)}, but the checkpoint "
                f"{self.location} was made with {before}.",
                "Nothing was started.",
                f"Either {remedy.format(was=before)}, or start with a new checkpoint folder (all "
                "input is then read again, under new incarnations).",
            )

    def identity(self) -> Identity | None:
        """What was pinned, None for a new one; StateFormatError where it is of another format."""
        plain = self._read(IDENTITY)
        if plain is None:
            return None
        form = plain.pop(FORMAT, None)
        if form not in FORMATS_READ:
            raise StateFormatError(f"The checkpoint {self.location}", form, *FORMATS_READ)
        own = {name: plain.pop(name) for name in DISCIPLINES[plain["discipline"]].fixed}
        return Identity(**plain, own=own)

    def state_format(self) -> int:
        """Return the format of its state, which is this version's where it is new."""
        return int((self._read(IDENTITY) or {}).get(FORMAT, STATE_FORMAT))

    def claim(self, service: str = "") -> None:
        """Hold it for this process, of this service, until it ends; JobFailed where another does.

        Works on a local folder. Elsewhere Kafka keeps two copies apart (`sink.claim`), and it is
        the newer one that goes on; here it only has to answer, which is known before Spark starts.
        """
        if not self.lockable:
            self.require_here()
            self._write_holder(service)
            return
        if crashes.wants("unlocked"):
            return
        self._files.make_folder()
        self._lock = lock(self._lock_path)
        if self._lock is None:
            raise JobFailed(
                f"Another copy of this service ({self._last_holder() or 'process unknown'}) runs "
                f"on the checkpoint {self.location}.",
                "This one did nothing; the other goes on.",
                "Stop that one first. A second service needs a name and a checkpoint of its own.",
            )
        self._write_holder(service)

    def release(self) -> None:
        """Release the lock, if this process holds it; the process's end does that, too."""
        with suppress(SequencerError):  # it says less then, and nothing rests on it
            if self._holder is not None and self._last_holder() == self._holder:
                self._files.remove(HOLDER)
        self._holder = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _is_ours(self) -> bool:
        found = self._last_holder()
        if found is None and self._holder is not None:  # a copy that ended just then removed ours
            self._write(HOLDER, asdict(self._holder))
        return self.is_locked or found in (None, self._holder)

    def holder(self) -> tuple[bool | None, Holder | None]:
        """Return whether a process works on it (None: nobody can tell), and which began last."""
        holder = self._last_holder()
        if self.lockable:
            return is_locked(self._lock_path), holder
        return (False if holder is None and self.status() else None), holder

    def _last_holder(self) -> Holder | None:
        with suppress(SequencerError):
            found = self._read(HOLDER)
            return None if found is None else Holder(**found)
        return None

    def _write_holder(self, service: str) -> None:
        self._holder = Holder.this_process(service)
        self._write(HOLDER, asdict(self._holder))

    def status(self) -> dict[str, Any]:
        """The last status written; empty where the pipeline has not run."""
        return self._read(STATUS) or {}

    def write_status(self, status: dict[str, Any]) -> None:
        """Replace the status."""
        self._write(STATUS, status)

    def waiting(self) -> dict[int, str]:
        """What each shard reported last of what waits (`arrow.totals`)."""
        return {int(shard): text for shard, text in (self._read(WAITING) or {}).items()}

    def write_waiting(self, waiting: dict[int, str]) -> None:
        """Replace what shards reported of what waits."""
        self._write(WAITING, {str(shard): text for shard, text in waiting.items()})

    def remove_damaged_figures(self) -> list[str]:
        """Remove the status and who waits where they cannot be read; returns which.

        Nothing rests on them but what is shown, and each batch writes them anew.
        """
        found = []
        for name in (STATUS, WAITING):
            try:
                self._read(name)
            except StorageUnavailable:
                raise
            except SequencerError:
                self._files.remove(name)
                found.append(f"{self.location}/{name}")
        return found

    def decisions(self) -> dict[str, Any]:
        """What :meth:`write_decisions` wrote last; empty where nothing was."""
        return self._read(DECISIONS) or {}

    def write_decisions(self, values: dict[str, Any]) -> None:
        """Replace the decisions."""
        self._write(DECISIONS, values)

    def has_beginning(self) -> bool:
        """Whether its batch 0 begins without state: none was moved here."""
        return "before" not in self.decisions()

    def read_up_to(self) -> dict[str, dict[str, int]]:
        """Return the offsets, by topic and partition, at which the last batch done ended."""
        return offsets_in(self.ends(self.done()))

    def _read(self, name: str) -> dict[str, Any] | None:
        last = None
        while self._files.kind(name) == fs.FileType.File:
            text = self._files.read(name)
            try:
                return dict(json.loads(text))
            except ValueError as error:
                if text == last:
                    raise self._damaged(name, f"is damaged: {error}") from error
            # An object replaced between its size and its bytes is cut; damage reads the same again.
            last = text
        return None

    def _write(self, name: str, content: dict[str, Any], *, synced: bool = False) -> None:
        self._files.write(name, json.dumps(content, sort_keys=True).encode(), synced=synced)
