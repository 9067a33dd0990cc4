"""The forms: which address does what. Each shows its effect before it is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from streaming.console import actions, effects
from streaming.console.desk import Desk


def channel_command(desk: Desk, request: Request, form: Mapping[str, str], user: str) -> Response:
    """Skip, seed or reset; a dry run is shown with a button that does it."""
    name = desk.name(request, "channel")
    try:
        answer = actions.channel_command(desk.config, name, form, user)
    except ValueError:
        raise HTTPException(400, "The channel is no base64.") from None
    return desk.page(request, "answer.html", answer=answer, form=form, act="channels")


def group_command(desk: Desk, request: Request, form: Mapping[str, str], user: str) -> Response:
    """Add, set, join, leave or remove; what it would change is shown first."""
    from streaming.verify import current  # noqa: PLC0415  (much memory)

    name = desk.name(request, "group")
    if not form.get("dry_run"):
        answer = actions.group_command(desk.config, name, form, user)
        return desk.page(request, "answer.html", answer=answer, form=form, act="group")
    with desk.turn():
        there = current.now(desk.config, name)
    command = actions.read_group_command(form)
    shown: dict[str, Any] = {"effect": effects.of(there, command), "command": command}
    return desk.page(request, "effect.html", form=form, **shown)


def resend(desk: Desk, request: Request, form: Mapping[str, str], _user: str) -> Response:
    """Rejects back to their input."""
    name = desk.name(request)
    with desk.turn():
        counts = actions.resend(desk.config, name, form)
    return desk.page(request, "resent.html", counts=counts, form=form)


FORMS = [
    ("/p/{name}/channels", channel_command),
    ("/p/{name}/group", group_command),
    ("/p/{name}/resend", resend),
]
