"""Commands that act on channels: reading, routing to shards, answering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from sequencer.channels import Answer, ChannelCommand, Op
from streaming.arrow import output
from streaming.arrow.key_text import key_from_json, key_to_json
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.commands import (
    CommandRefused,
    is_unicode,
    own_id,
    read_object,
    signature,
    unknown_field,
)
from streaming.disciplines.commands import read_request as read_named
from streaming.disciplines.state_keys import shard_of_name
from streaming.settings.values import Duration

FIELDS = {"op", "id", "channel", "blocked", "to", "label", "dry_run", "by", "why"}
ANSWER_FIELDS = {"not_coming", "id", "channel", "epoch", "from", "to", "by", "why"}
"""The fields of a sender's answer that requested labels will not come."""

LABEL = {Op.SKIP: "to", Op.SEED: "label"}
"""The field that names a label."""

DETAILS = {
    "bad-label": "is not a label of the channel, or too far away",
    "not-ahead": "is not ahead of the label that is next",
    "after-fin": "comes after the channel's FIN",
    "other-epoch": "is not the channel's epoch",
    "too-many": "ends one of too many ranges of the channel that will not come",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A command that was read; ``command`` is None if it is not valid, and refused.

    ``repeated``: the fields that the answer repeats.
    """

    id: str | None
    command: ChannelCommand | None
    repeated: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    detail: str = ""

    def shard(self, shards: int, at: int) -> int | None:
        """Return the shard that it concerns, None for all; ``at`` picks one if it is refused."""
        if self.command is None:
            return at % shards
        return None if self.command.channel is None else shard_of_name(self.command.channel, shards)

    def answer(
        self, pipeline: str, place: Mapping[str, Any], now_ms: int, outcome: Answer | None
    ) -> output.Event:
        """Return the event that answers it; ``outcome`` is None if the command is not valid."""
        more = dict(self.repeated)
        if outcome is None:
            more |= {"reason": self.reason, "detail": self.detail}
        elif outcome.refused is not None:
            reason = outcome.refused.value
            named = ("from",) if outcome.of_first else _named_by(reason)
            field = next(name for name in named if name in self.repeated)
            more |= {"reason": reason, "detail": f"{self.repeated[field]!r} {DETAILS[reason]}"}
        else:
            more |= {"channels": outcome.channels, "given_up": outcome.given_up}
        if outcome is not None and not outcome.known:
            more["known"] = False
        return output.answer(pipeline, place, self.id, now_ms, more)


def _named_by(reason: str) -> Sequence[str]:
    """Return the fields that a refusal may be about."""
    return ("epoch",) if reason == "other-epoch" else ("to", "label")


def read_request(value: bytes | None, ops: Sequence[Op] = tuple(Op)) -> Request:
    """Read a command that is one of ``ops``."""
    own_name: str | None = None
    repeated: dict[str, Any] = {}
    try:
        request = read_object(value)
        own_name = own_id(request)
        repeated |= signature(request)
        command = _read(request, ops, repeated)
    except CommandRefused as refused:
        return Request(own_name, None, repeated, refused.reason, refused.detail)
    return Request(own_name, command, repeated)


def read_own_request(value: bytes | None, op: str, channel: bytes | None) -> Request:
    """Read the command of an input's record, to its own channel; its header names ``op``."""
    own_name: str | None = None
    repeated: dict[str, Any] = {}
    try:
        request = read_named(value, op)
        own_name = own_id(request)
        repeated |= signature(request)
        command = _read(_about(channel, request), tuple(Op), repeated)
    except CommandRefused as refused:
        return Request(own_name, None, repeated, refused.reason, refused.detail)
    return Request(own_name, command, repeated)


def _about(channel: bytes | None, request: dict[str, Any]) -> dict[str, Any]:
    if channel is None:
        raise CommandRefused("bad-channel", "the record has no channel")
    own = key_to_json(channel)
    try:
        named = key_from_json(request.get("channel", own))
    except ValueError:
        named = None
    if "blocked" in request or named != channel:
        raise CommandRefused("bad-channel", "a record of an input can name its own channel only")
    return {**request, "channel": own}


def _read(
    request: Mapping[str, Any], ops: Sequence[Op], repeated: dict[str, Any]
) -> ChannelCommand:
    if "not_coming" in request and Op.NOT_COMING in ops:
        return _read_answer(request, repeated)
    ops = [known for known in ops if known is not Op.NOT_COMING]
    op = next((known for known in ops if known.value == request.get("op")), None)
    if op is None:
        raise CommandRefused(
            "unknown-op", f"op is none of {', '.join(known.value for known in ops)}"
        )
    repeated["op"] = op.value
    if strange := sorted(
        set(request) - FIELDS | {*LABEL.values()} & set(request) - {LABEL.get(op)}
    ):
        raise unknown_field(op.value, strange[0])
    dry_run = request.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise CommandRefused("bad-dry-run", "dry_run is neither true nor false")
    if dry_run:
        repeated["dry_run"] = True
    channel, blocked_ms = _whom(request, repeated)
    return ChannelCommand(op, channel, _label(request, op, repeated), blocked_ms, dry_run)


def _read_answer(request: Mapping[str, Any], repeated: dict[str, Any]) -> ChannelCommand:
    """Read a sender's answer to a request for missing labels."""
    repeated["op"] = Op.NOT_COMING.value
    if strange := sorted(set(request) - ANSWER_FIELDS):
        raise unknown_field(Op.NOT_COMING.value, strange[0])
    channel, _ = _whom(request, repeated)
    if request["not_coming"] is not True:
        raise CommandRefused(
            "bad-not-coming", "not_coming is not true; say nothing of what may come"
        )
    epoch = request.get("epoch")
    if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 <= epoch < 2**63:
        raise CommandRefused("bad-epoch", "epoch is not a whole number from 0 to 2^63 - 1")
    repeated["epoch"] = epoch
    first, stop = (_label_in(request, name, repeated) for name in ("from", "to"))
    return ChannelCommand(Op.NOT_COMING, channel, stop, first=first, epoch=epoch)


def _whom(request: Mapping[str, Any], repeated: dict[str, Any]) -> tuple[bytes | None, int]:
    """Return the channel, or None and the least waiting time (ms) of the wanted ones."""
    if ("channel" in request) == ("blocked" in request):
        raise CommandRefused(
            "bad-channel", "it names either a channel or how long some have waited"
        )
    if "channel" in request:
        try:
            channel = key_from_json(request["channel"])
        except ValueError as error:
            raise CommandRefused("bad-channel", f"the channel {error}") from error
        repeated["channel"] = request["channel"]
        return channel, 0
    try:
        span = TypeAdapter(Duration).validate_python(request["blocked"])
    except ValidationError as error:
        fault = error.errors()[0]
        why = fault.get("ctx", {}).get("error", fault["msg"])
        raise CommandRefused("bad-blocked", f"blocked {why}") from error
    repeated["blocked"] = request["blocked"]
    return None, span.ms


def _label(request: Mapping[str, Any], op: Op, repeated: dict[str, Any]) -> bytes | None:
    name = LABEL.get(op)
    if name is None or (name not in request and op is Op.SKIP):
        return None
    return _label_in(request, name, repeated)


def _label_in(request: Mapping[str, Any], name: str, repeated: dict[str, Any]) -> bytes:
    label = request.get(name)
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise CommandRefused("bad-label", f"{name} is not a label")
    if isinstance(label, str) and not is_unicode(label):
        raise CommandRefused("bad-label", f"{name} is not valid Unicode")
    repeated[name] = label
    return str(label).encode()


@dataclass(frozen=True, slots=True)
class ShardCommands:
    """The commands that one shard has in a batch, in order, and the place of each."""

    requests: list[Request]
    places: list[dict[str, Any]]
    pipeline: str

    @classmethod
    def of(cls, rows: pa.Table, plan: ChannelPlan) -> ShardCommands:
        """Return the commands in rows of RECORD."""
        places = rows.select(["topic", "partition", "offset"]).to_pylist()
        for place in places:
            place["topic"] = plan.reads[place["topic"]]
        requests = [read_request(value, plan.ops) for value in rows["value"].to_pylist()]
        return cls(requests, places, plan.pipeline)

    def __add__(self, others: ShardCommands) -> ShardCommands:
        return ShardCommands(
            self.requests + others.requests, self.places + others.places, self.pipeline
        )

    @property
    def commands(self) -> list[ChannelCommand]:
        """Return the commands that are to be carried out."""
        return [request.command for request in self.requests if request.command is not None]

    def answers(
        self, done: Sequence[Answer], now_ms: int
    ) -> tuple[list[output.Event], list[dict[str, Any]], list[dict[str, Any]]]:
        """Return complete answers, this shard's parts of answers, and both for each of `commands`.

        ``done``: the result of each command. In the last list, parts have no counts.
        """
        whole, parts, acted = [], [], []
        outcomes = iter(done)
        for request, place in zip(self.requests, self.places, strict=True):
            outcome = next(outcomes) if request.command is not None else None
            event = request.answer(self.pipeline, place, now_ms, outcome)
            if request.command is not None and request.command.channel is None:
                parts.append(event[1])
                counts = output.SUMMED
                acted.append({k: v for k, v in event[1].items() if k not in counts})
            else:
                whole.append(event)
                acted += [event[1]] if request.command is not None else []
        return whole, parts, acted
