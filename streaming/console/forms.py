"""The forms: which address does what. Each shows its effect before it is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from streaming.console import actions, effects, streams, waits
from streaming.console.desk import Desk
from streaming.console.values import decoded_key


def channel_command(desk: Desk, request: Request, form: Mapping[str, str], user: str) -> Response:
    """Skip, seed or reset; a dry run is shown with a button that does it.

    The answer comes after the deliveries that the command brought: of one channel they are shown.
    """
    name = desk.name(request, "channel")
    try:
        answer = actions.channel_command(desk.config, name, form, user)
        shown: dict[str, Any] = {"answer": answer, "form": form, "act": "channels"}
        shown["reasons"] = actions.REASONS
        if "channel" in form:
            key = decoded_key(form["channel"])
            is_dry = bool(form.get("dry_run"))
            shown["is_current"] = is_dry or waits.await_batch(desk.config, name, answer["at"])
            with desk.turn():
                shown |= streams.channel(desk.config, name, key, streams.Scope())
    except ValueError:
        raise HTTPException(400, "The channel is no base64.") from None
    return desk.page(request, "answer.html", **shown)


def group_command(desk: Desk, request: Request, form: Mapping[str, str], user: str) -> Response:
    """Add, set, join, leave or remove; what it would change is shown first."""
    name = desk.name(request, "group")
    if not form.get("dry_run"):
        answer = actions.group_command(desk.config, name, form, user)
        return desk.page(request, "answer.html", answer=answer, form=form, act="group")
    with desk.turn():
        there = desk.groups.of(name)
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
