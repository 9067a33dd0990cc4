"""The progress of a state partition: the last batch that it wrote, as Kafka keeps it.

It is one committed offset of the group `Plan.progress_group`, sent within the transaction that
writes the batch: the offset is the batch's number, the metadata says which batch of that number it
was. A restored checkpoint gives old numbers to other input, so the number alone says nothing.

    offset    42
    metadata  "0b7c…-41d2 5f0e…1a.77c0…e3.19ab… all-3e8+1>0"
               query      digest           newest part    runs
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

ALL = "all"
"""The part of a batch that was written in one transaction, and of the last of several; the number
of records that were read for it is behind it."""

NOTHING = "-"
"""A digest that says: nothing of this batch or of later ones counts as written. It takes the place
of the progress of batches that are lost (`streaming.service.histories`)."""


DIGEST_CHARACTERS = 16


def hashed(content: bytes) -> str:
    """Return a short name for some bytes."""
    return hashlib.sha256(content).hexdigest()[:DIGEST_CHARACTERS]


def same_input(digest: str, logged: bytes) -> bool:
    """Whether a digest is that of a batch with this entry in the offset log."""
    return digest.partition(".")[0] == hashed(logged)


def nothing_since(renewed_ms: int) -> str:
    """Return the same, of a checkpoint that has this renewal of incarnations: no older one has."""
    return f"{NOTHING}{renewed_ms:x}"


@dataclass(frozen=True, slots=True)
class Part:
    """How far a batch is written that is not written whole.

    ``whole``: the shards of which all is written, a bit for each state key; ``read``: how many
    records they got of the batch, None where that was not kept. ``cut``: by state key, how many
    records are written of a shard, a checksum of what the last one looked like, and, where it was
    kept, how many the shard got. ``total``: records that are written, of all shards. ``forgotten``:
    whether Kafka knew of no progress before.
    """

    whole: int = 0
    cut: dict[int, tuple[int, ...]] = field(default_factory=dict)
    total: int = 0
    forgotten: bool = False
    read: int | None = 0

    def to_text(self) -> str:
        """One word, with an end to it."""
        cuts = ("-".join(f"{each:x}" for each in (key, *cut)) for key, cut in self.cut.items())
        read = "" if self.read is None else f"-{self.read:x}"
        known = f"{self.whole:x}", f"{self.total:x}", f"{self.forgotten:x}{read}", *cuts
        return f"{'.'.join(known)}/"

    @classmethod
    def from_text(cls, text: str) -> Part:
        """The inverse of :meth:`to_text`."""
        whole, total, known, *cuts = text.rstrip("/").split(".")
        forgotten, _, read = known.partition("-")
        numbers = (tuple(int(number, 16) for number in each.split("-")) for each in cuts)
        cut = {key: tuple(noted) for key, *noted in numbers}
        return cls(
            int(whole, 16),
            cut,
            int(total, 16),
            forgotten=forgotten == "1",
            read=int(read, 16) if read else None,
        )


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """What a state partition wrote last.

    ``query`` names the checkpoint. ``digest`` names what the batch is made from: the end offsets of
    all sources, its time, and the decisions that hold for it (`BatchContext.digest`). ``part`` is
    None where the batch is complete, else how far it is (`streaming.sink.parts`). ``read``: how
    many records the partition's shards got of a complete batch, None where that was not kept; a
    repeat has to give them as many, as compaction may have removed some. ``refusing_runs``: how
    many runs of the batch found records that Kafka refuses, which this one leaves out; a repeat
    has to know of these. ``needed_runs``: as many, where a run found such records here and wrote
    nothing: an earlier attempt that begins late must not write the batch with them, since the
    state after it would not have them. ``newest_ms``: no incarnation of the batch or of an earlier
    one is larger; 0 where that was not kept.
    """

    batch: int
    query: str
    digest: str
    part: Part | None = None
    read: int | None = None
    refusing_runs: int = 0
    needed_runs: int = 0
    newest_ms: int = 0

    @property
    def is_taken_back(self) -> bool:
        """Whether it says that nothing counts as written (`NOTHING`)."""
        return self.digest.startswith(NOTHING)

    @property
    def incarnations_ms(self) -> int:
        """As ``newest_ms``; of progress that was taken back, its history's renewal, 0 for none."""
        renewed = self.digest.removeprefix(NOTHING) or "0"
        return int(renewed, 16) if self.is_taken_back else self.newest_ms

    def is_taken_back_by(self, renewals: Iterable[Sequence[int]]) -> bool:
        """Whether that was by a start of a history that has these renewals (time, batch)."""
        return self.digest in (NOTHING, *(nothing_since(at_ms) for at_ms, _ in renewals))

    def to_text(self) -> str:
        """Return the metadata; the batch is the offset."""
        read = "" if self.read is None else f"-{self.read:x}"
        part = f"{ALL}{read}" if self.part is None else self.part.to_text()
        counts = (self.refusing_runs, self.needed_runs)
        runs = f"+{counts[0]:x}>{counts[1]:x}" if any(counts) else ""
        newest = f".{self.newest_ms:x}" if self.newest_ms else ""
        return f"{self.query} {self.digest}{newest} {part}{runs}"

    @classmethod
    def from_text(cls, batch: int, text: str) -> BatchProgress | None:
        """Return the inverse of :meth:`to_text`; None where there is no progress, or not ours."""
        words = text.split(" ")
        if batch < 0 or len(words) != len(("query", "digest", "part")):
            return None
        query, digest, how_far = words
        has_newest = digest.count(".") > 1
        digest, _, newest = digest.rpartition(".") if has_newest else (digest, "", "0")
        newest_ms = int(newest, 16)
        part, _, runs = how_far.partition("+")
        refusing, needed = (int(count, 16) for count in (runs or "0>0").split(">"))
        if part.startswith(ALL):
            _, _, read = part.partition("-")
            count = int(read, 16) if read else None
            return cls(batch, query, digest, None, count, refusing, needed, newest_ms)
        return cls(batch, query, digest, Part.from_text(part), None, refusing, needed, newest_ms)
