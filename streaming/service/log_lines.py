"""Lines of the log that need more than a sentence: commands with their answers, and who waits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from streaming.arrow.key_text import word_of
from streaming.disciplines.commands import SIGNED
from streaming.logs import count, say
from streaming.terminal import printable

WAITED_SECONDS_MIN = 60
WAITING_MAX = 3
TEXT_MAX = 200

HEAD = ("event", "id", "at", "command", "topic", "partition", "offset")
ANSWER = ("channels", "given_up", "known", "version", "timestamp", "from", "reason", "detail")
"""Fields of an answer that say what came of the command; the others, without HEAD, repeat it."""


def say_commands(pipeline: str, answers: Iterable[Mapping[str, Any]]) -> None:
    """Say of each answered command who gave it, why, and what came of it."""
    for answer in answers:
        is_refused = answer["event"] == "command-refused"
        named = (*HEAD, *ANSWER, "op", *SIGNED)
        asked = {name: answer[name] for name in answer if name not in named}
        asked |= {name: answer[name] for name in SIGNED if name in answer}
        result = {name: answer[name] for name in ANSWER if name in answer}
        op = answer.get("op", "unreadable" if answer.get("reason") == "unreadable" else None)
        say(
            f"{pipeline}: command{'' if op is None else ' ' + _text(op)}{_listed(asked)}: "
            f"{'refused' if is_refused else 'done'}{_listed(result)}",
            event="command",
            level="warning" if is_refused else "info",
            pipeline=pipeline,
            answer=dict(answer),
        )


def say_waiting(
    pipeline: str, key: str, waiting: Iterable[Mapping[str, Any]], blocked: int
) -> None:
    """Say which channels, subscribers or peers (``key``) have waited longest, if for a minute.

    ``waiting``: as `status --blocked --json` has it, longest first; ``blocked``: how many wait.
    """
    now = time.time()
    longest: list[str] = []
    for each in waiting:
        waited_s = now - datetime.fromisoformat(each["since"]).timestamp()
        if waited_s >= WAITED_SECONDS_MIN and len(longest) < WAITING_MAX:
            longest.append(
                f"{word_of(each[key])} for {_text(each['next'])} ({waited_s:,.0f} s, "
                f"{each['held']:,} held)"
            )
    if longest:
        waits = "waits" if blocked == 1 else "wait"
        say(
            f"{pipeline}: {count(blocked, key)} {waits}, longest {'; '.join(longest)}",
            event="waiting",
            level="warning",
            pipeline=pipeline,
            blocked=blocked,
        )


def _listed(fields: Mapping[str, Any]) -> str:
    listed = ", ".join(f"{name} {_text(value)}" for name, value in fields.items())
    return f" ({listed})" if listed else ""


def _text(value: Any) -> str:
    """Return a field's value on one line; it came from outside."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = printable(text, kept="")
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
