"""Links between shards: chunks that one sends another, by way of the transit topic, numbered.

Chunks carry their link's numbers, so that a repeated one (delivery = "at-least-once") is known, and
the history and the batch that they are of: where a checkpoint was older than its output and went on
all the same, what its lost batches sent is still on its way, and is passed over. At-least-once
nothing else shows that a checkpoint is older.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from streaming.errors import CheckpointBehind, InputLost, StateFormatError

CHUNK_FORMAT = 4
SAID_FORMAT = 5
"""Of what shards say to each other about messages that Kafka refused; see `inquiries`."""
_FORMAT = struct.Struct(">H")
_ENVELOPE = struct.Struct(">HIQQQI")
"""The format, the sending shard, the chunk's number; since when (ms) its history goes on with new
incarnations, its batch (where a state is moved, batches are counted on), and `_RUN_BITS` of its run
(each knows more of what Kafka refuses) behind those of its checkpoint, where runs count."""
ENVELOPE_BYTES = _ENVELOPE.size
_RUN_BITS = 16
DIGEST_BYTES = 8


@dataclass(slots=True)
class NewestBatch:
    """What came of a shard's newest ``batch`` in a ``checkpoint``, up to its newest ``run``.

    ``first``: the number of its first chunk; ``chunks``: that behind the last one which is no
    statement (these are the same in all runs). ``said``: digests of the statements of all runs.
    """

    checkpoint: int
    batch: int
    run: int
    first: int
    chunks: int
    said: list[str] = field(default_factory=list)

    def is_new(self, words: bytes) -> bool:
        """Return whether a statement did not come from another run; note it."""
        digest = hashlib.blake2b(words, digest_size=DIGEST_BYTES).hexdigest()
        if digest in self.said:
            return False
        self.said.append(digest)
        return True


@dataclass(slots=True)
class Links:
    """How many chunks went to each shard, and how many came from each.

    ``renewals`` (`Plan.renewals`), ``batch`` and ``run`` are those of the batch that runs. What a
    run says about refused messages is other than what earlier ones said, under the same numbers;
    with delivery = "at-least-once" all of it is written, and the last one counts: what it says to a
    shard, be it nothing (b""), replaces what earlier ones said to it. A shard that reads between
    two runs takes of the later one what is new (``newest``); ``withdrawn``: how many statements it
    had taken of the earlier one. ``checkpoint``: which one it is, then. Else it is 0, as ``run``
    is: of earlier runs only parts stay that were committed, which later ones give again and pass
    over.
    """

    sent: dict[int, int] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)
    newest: dict[int, NewestBatch] = field(default_factory=dict)
    renewals: tuple[tuple[int, int], ...] = ()
    batch: int = 0
    run: int = 0
    checkpoint: int = 0
    withdrawn: int = 0

    def to_json(self, inquiries: Sequence[Any] = ()) -> str:
        """Equal links give equal text; ``inquiries`` stand in it, too, if there are any."""
        newest = [[source, *astuple(each)] for source, each in sorted(self.newest.items())]
        more = [inquiries, newest] if newest else [inquiries] if inquiries else []
        return json.dumps([sorted(self.sent.items()), sorted(self.taken.items()), *more])

    @classmethod
    def of(cls, text: str) -> tuple[Links, list[Any]]:
        """Return the inverse of :meth:`to_json`."""
        sent, taken, *more = json.loads(text or "[[],[]]")
        inquiries, newest = [*more, [], []][:2]
        of_shards = {source: NewestBatch(*fields) for source, *fields in newest}
        return cls(dict(map(tuple, sent)), dict(map(tuple, taken)), of_shards), inquiries

    @staticmethod
    def number_of(checkpoint: str) -> int:
        """Return a number for a checkpoint, by its name; never 0."""
        digest = hashlib.blake2b(checkpoint.encode(), digest_size=_RUN_BITS // 8).digest()
        return int.from_bytes(digest, "big") or 1

    def seal(self, shard: int, target: int, chunk: bytes, form: int = CHUNK_FORMAT) -> bytes:
        """A chunk with its sender, its number on the link, its history and its batch."""
        number = self.sent.get(target, 0)
        self.sent[target] = number + 1
        since_ms = max((at_ms for at_ms, _ in self.renewals), default=0)
        run = self.checkpoint << _RUN_BITS | self.run
        return _ENVELOPE.pack(form, shard, number, since_ms, self.batch, run) + chunk

    def take(self, values: Sequence[bytes]) -> dict[int, list[tuple[int, bytes]]]:
        """Return senders and chunks, without repeats, by format.

        InputLost if one is missing, CheckpointBehind if one is of a batch that is still to come.
        """
        arrived: dict[int, list[tuple[int, bytes]]] = {CHUNK_FORMAT: [], SAID_FORMAT: []}
        last_runs = _last_runs(values)
        self.withdrawn = 0
        for value in values:
            form, source, number, since_ms, batch, run = _ENVELOPE.unpack_from(value)
            is_last = run == last_runs[source, since_ms, batch, run >> _RUN_BITS]
            if self._is_lost(since_ms, batch) or not is_last:
                continue
            if run >> _RUN_BITS == self.checkpoint > 0 and batch >= self.batch:
                raise CheckpointBehind(
                    f"The checkpoint is older than its output: shard {source} sent another shard "
                    "a message in a batch that is not in the checkpoint, which was restored from a "
                    "backup, or lost its end with the power.",
                    "What is written of this batch stays; it is not finished.",
                    "Restore the newest checkpoint that there is. If this is it, start with "
                    "--accept-repeats: what the lost batches read is read again, and delivered "
                    "once more (docs/backup.md).",
                )
            expected = self._expected(source, number, batch, run)
            if number > expected:
                raise InputLost(
                    f"Chunk {expected} from shard {source} is missing in the transit topic.",
                    "Nothing was written.",
                    "Somebody deleted records there, or wrote to it; start with a new checkpoint "
                    "folder: all input is then read again, and delivered under new incarnations.",
                )
            if number == expected:
                self.taken[source] = number + 1
                newest, words = self.newest.get(source), value[_ENVELOPE.size :]
                if newest is None:
                    arrived[form].append((source, words))
                elif form == SAID_FORMAT:
                    arrived[form].append((source, words if newest.is_new(words) else b""))
                elif number >= newest.chunks:
                    newest.chunks = number + 1
                    arrived[form].append((source, words))
        return arrived

    def _expected(self, source: int, number: int, batch: int, run: int) -> int:
        """Return the number of the next chunk, now that one of a batch's run comes."""
        expected, newest = self.taken.get(source, 0), self.newest.get(source)
        checkpoint, run = divmod(run, 1 << _RUN_BITS)
        if not checkpoint:  # it was written exactly once
            self.newest.pop(source, None)
            return expected
        if newest is not None and newest.checkpoint == checkpoint:
            if (batch, run) < (newest.batch, newest.run):
                return number + 1  # it was taken, or replaced
            if batch == newest.batch and run > newest.run:
                self.withdrawn += max(expected - newest.chunks, 0)
                newest.run = run
                self.taken[source] = newest.first
                return newest.first
            if batch == newest.batch:
                return expected
            expected = min(expected, number)  # the last run may be lost of which more was taken
        if number == expected:
            self.newest[source] = NewestBatch(checkpoint, batch, run, number, number)
        return expected

    def _is_lost(self, since_ms: int, batch: int) -> bool:
        """Return whether the checkpoint does not know this batch of this history.

        It knows no history that began, from an older backup, after this one was made.
        """
        is_known = since_ms == 0 or any(since_ms == at_ms for at_ms, _ in self.renewals)
        replaced = any(since_ms < at_ms and batch >= first for at_ms, first in self.renewals)
        return replaced or not is_known


def _last_runs(values: Sequence[bytes]) -> dict[tuple[int, int, int, int], int]:
    """The last run of each shard's batches, by shard, history, batch and checkpoint."""
    last: dict[tuple[int, int, int, int], int] = {}
    for value in values:
        (form,) = _FORMAT.unpack_from(value)
        if form not in (CHUNK_FORMAT, SAID_FORMAT):
            raise StateFormatError("A chunk in the transit topic", form, CHUNK_FORMAT)
        _, source, _, since_ms, batch, run = _ENVELOPE.unpack_from(value)
        of = (source, since_ms, batch, run >> _RUN_BITS)
        last[of] = max(run, last.get(of, 0))
    return last
