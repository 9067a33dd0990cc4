"""Commands from the console: those of the command line, answered on the events topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streaming.arrow.key_text import key_to_json
from streaming.config import Config
from streaming.console.effects import GroupCommand
from streaming.console.values import decoded_key, is_number, place_in
from streaming.disciplines.channels.commands import read_request
from streaming.errors import ConfigError
from streaming.kafka.asking import ask
from streaming.resending.choice import Choice
from streaming.resending.sending import Count, Resending

ANSWER_SECONDS = 20
CHANNEL_OPS = ("skip", "seed", "reset")
REASONS = ("lost for good", "not needed")
"""Why labels are given up: those that a button says; others are typed."""
GROUP_OPS = ("add", "set", "join", "leave", "remove")


def channel_command(
    config: Config, name: str, form: Mapping[str, str], user: str
) -> dict[str, Any]:
    """Send a command to channels and return the answer.

    ``form``: op, channel (`views.encoded_key`) or blocked, label, why, dry_run. Raises ConfigError
    where it cannot work, JobFailed where no answer comes.
    """
    op = form.get("op", "")
    if op not in CHANNEL_OPS:
        raise ConfigError(f"There is no command {op!r} for channels.", "Nothing was sent.")
    command: dict[str, Any] = {"op": op, "by": user, "why": _why(form)}
    if form.get("blocked"):
        command["blocked"] = form["blocked"]
    elif "channel" in form:
        command["channel"] = key_to_json(decoded_key(form["channel"]))
    label = form.get("label", "").strip()
    if label and op != "reset":
        as_number = config.pipelines[name].labels.kind != "custom" and is_number(label)
        command["to" if op == "skip" else "label"] = int(label) if as_number else label
    if form.get("dry_run"):
        command["dry_run"] = True
    request = read_request(json.dumps(command).encode())
    if request.command is None:
        raise ConfigError(f"The command is refused: {request.detail}.", "Nothing was sent.")
    return ask(config, name, command, request.command.channel, ANSWER_SECONDS)


def read_group_command(form: Mapping[str, str]) -> GroupCommand:
    """Read what a form asks for. ConfigError where it cannot work."""
    op, group = form.get("op", ""), form.get("group", "").strip()
    if op not in GROUP_OPS:
        raise ConfigError(f"There is no command {op!r} for groups.", "Nothing was sent.")
    if not group:
        raise ConfigError("The group's name is missing.", "Nothing was sent.")
    members = tuple(dict.fromkeys(form.get("members", "").replace(",", " ").split()))
    if op in ("join", "leave") and len(members) != 1:
        raise ConfigError(f"{op} takes one member.", "Nothing was sent.", "Name one.")
    version = form.get("if_version", "")
    return GroupCommand(op, group, members, int(version) if is_number(version) else None)


def group_command(config: Config, name: str, form: Mapping[str, str], user: str) -> dict[str, Any]:
    """Send a command about a group and return the answer; ``form``: op, group, members, why."""
    read = read_group_command(form)
    command: dict[str, Any] = {"op": read.op, "group": read.group, "by": user, "why": _why(form)}
    if read.op in ("add", "set"):
        command["members"] = list(read.members)
    if read.op in ("join", "leave"):
        command["member"] = read.members[0]
    if read.if_version is not None and read.op != "add":
        command["if_version"] = read.if_version
    return ask(config, name, command, None, ANSWER_SECONDS)


def resend(config: Config, name: str, form: Mapping[str, str]) -> dict[str, Count]:
    """Send rejects back, each once, or count them; ``form``: reason, dry_run.

    With ``place`` (of the input that was rejected) only that one.
    """
    conditions = []
    if form.get("place"):
        try:
            topic, partition, offset = place_in(form["place"])
        except ValueError as error:
            raise ConfigError(f"{error}.", "Nothing was sent.") from None
        conditions = [f"topic = '{topic}'", f"partition = {partition}", f"offset = {offset}"]
    choice = Choice.of([form.get("reason", "")], conditions)
    return Resending(config, name, choice, lambda _said: None).run(dry=bool(form.get("dry_run")))


def _why(form: Mapping[str, str]) -> str:
    why = form.get("why", "").strip()
    if not why and not form.get("dry_run"):
        raise ConfigError("A reason is missing.", "Nothing was sent.", "Say why.")
    return why
