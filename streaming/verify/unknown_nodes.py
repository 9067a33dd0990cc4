"""Rejects `bad-destination`: not for nodes that the sender had reached or passed before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from streaming.verify.columns import paced
from streaming.verify.commands import may_be_forgotten
from streaming.verify.faults import Verdict
from streaming.verify.histories import text
from streaming.verify.inputs import Inputs
from streaming.verify.nodes import Node, is_bad, names


class Remembered(NamedTuple):
    """How long a destroyed node is remembered, and when the topics were read (ms)."""

    remembered_ms: int
    now_ms: int


def judge_unknown(
    verdict: Verdict,
    inputs: Inputs,
    bad: Mapping[int, str],
    reached: Callable[[int], Iterable[bytes]],
    nodes: Mapping[bytes, Node],
    remembered: Remembered,
) -> None:
    """Find rejects of records whose sender had reached or passed all their nodes before.

    A node that was destroyed may be forgotten by then, and a handle that is no node's (`@name`) is
    always bad. ``bad``: by record, where its reject `bad-destination` lies. ``reached`` returns the
    destinations of a record that became a message.
    """
    known_to: dict[tuple[int, bytes | None], set[bytes]] = {}
    for record in paced(range(len(inputs))):
        wanted, handles = (names(value) if there else () for there, value in inputs.headers[record])
        if not handles and not any(name.startswith(b"@") for name in wanted):
            continue
        known = known_to.setdefault((inputs.partition[record], inputs.senders[record]), set())
        if inputs.message[record] >= 0:
            known.update(reached(record), handles)
        elif record in bad and not is_bad(wanted):
            named = [name for name in wanted if name.startswith(b"@")] + [*handles]
            is_known = known.issuperset(named) and all(name.startswith(b"@") for name in named)
            if is_known and not _may_be_forgotten(named, nodes, remembered):
                witness = f"{bad[record]}: bad-destination does not fit {inputs.where(record)}"
                before = f"its sender had reached or passed {text(b','.join(named))} before"
                verdict.find("wrong-reason", f"{witness}; {before}")


def _may_be_forgotten(
    named: Iterable[bytes], nodes: Mapping[bytes, Node], remembered: Remembered
) -> bool:
    lives = (life for name in named for life in nodes.get(name, Node()).lives)
    return any(
        life.ended is not None
        and (
            may_be_forgotten(life.ended, *remembered)
            or remembered.now_ms - life.asked_ms >= remembered.remembered_ms
        )
        for life in lives
    )
