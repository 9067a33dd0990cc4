"""A walk through verbs: terminals of 60, 80 and 200 columns without colours, a pipe, JSON."""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest

from streaming import cli
from tests.kafka_helpers import Record, produce
from tests.service_helpers import RUN_SECONDS_MAX, write_config
from tests.warm import warm

PLAIN = {"NO_COLOR": "1", "TERM": "xterm"}
DUMB = {"NO_COLOR": "", "TERM": "dumb"}
TERMINALS = {60: PLAIN, 80: DUMB, 200: PLAIN}
CUT = re.compile(r"…$|\w…\s|\.\.\.$", re.MULTILINE)
TABLES = ("check", "inspect", "replay", "resend", "status")
"""Verbs whose output is a table, which is never wider than the terminal."""
LONG = b"a channel with a long name, of a gateway in another town, line 7 of 12, [red]kept[/red]"
GROUPS = {"a group with a long name of its own": ["A", "B", "C"], "G1": ["B", "C", "D"]}


def with_input(folder, broker, topics):
    """A configuration of three disciplines, p, g and m; of p's input, 2 and 5 of a channel wait."""
    pipelines = {
        "p": topics["p"],
        "g": {"discipline": "group", "groups": GROUPS, **topics["g"]},
        "m": {"discipline": "multicast", **topics["m"]},
    }
    for key in (b"IBM", LONG):
        sent = [Record(key, b"%d" % n, [("label", b"%d" % n)]) for n in (0, 0, 2, 5)]
        produce(broker.bootstrap, topics["p"]["input"], sent)
    return write_config(folder, broker.bootstrap, pipelines)


class Screen(io.StringIO):
    """What is shown on a terminal."""

    def isatty(self) -> bool:
        return True


def printed(words, out, **environment):
    """Standard output and error of a command, in this process."""
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["sequencer", *map(str, words)])
        with pytest.raises(SystemExit):
            cli.main()
    return out.getvalue(), err.getvalue()


def walk(words, terminals=TERMINALS):
    """What a verb says in each of these places: its output and its messages, by the place."""
    said = {
        columns: printed(words, Screen(), COLUMNS=str(columns), **terminal)
        for columns, terminal in terminals.items()
    }
    said["pipe"] = printed(words, io.StringIO())
    said["json"] = printed((*words, "--json"), io.StringIO())
    return said


@contextmanager
def on_a_screen():
    """A command of the process that tests share takes its output for a terminal."""
    sys.stdout.isatty = lambda: True
    yield


def walk_with_spark(words):
    """The same of a verb that needs Spark, in the process that tests share."""

    def said(*more, **how):
        command = warm().call(*map(str, words), *more, **how)
        assert command.poll(RUN_SECONDS_MAX) == 0, command.said()
        return command.answer["out"], ""

    screen = f"{__name__}:{on_a_screen.__name__}"
    found = {
        columns: said(environment={"COLUMNS": str(columns), **terminal}, within=screen)
        for columns, terminal in TERMINALS.items()
    }
    return {**found, "pipe": said(), "json": said("--json")}


def require_readable(words, said):
    """Nothing is cut, coloured or too wide, whatever the terminal; --json is JSON alone."""
    whole, _ = said["pipe"]
    for place, (out, err) in said.items():
        shown = f"{' '.join(map(str, words))} ({place})\n{out}{err}"
        assert "\x1b" not in out + err, shown
        assert "Traceback" not in err, shown
        if place == "json":
            require_json(out, shown)
            continue
        assert not CUT.search(out), shown
        assert letters(out) == letters(whole), shown
        if words[0] in TABLES and place != "pipe":
            rows = [line for line in out.splitlines() if not line.endswith(".")]
            assert max(map(len, rows), default=0) <= place, shown


def require_json(out, shown):
    """A value, or one in each line; none where the verb refused."""
    try:
        json.loads(out or "null")
    except ValueError:
        assert all(isinstance(json.loads(line), dict) for line in out.splitlines()), shown


def letters(text):
    """How often each letter is there: lines may be folded, figures may move on."""
    return Counter(letter for letter in text if letter.isalpha())


def verbs_with_json():
    """Each verb that has a --json, as it is typed."""
    import typer.main

    def found(commands, before):
        for name, command in commands.items():
            if hasattr(command, "commands"):
                yield from found(command.commands, (*before, name))
            elif any("--json" in each.opts for each in command.params):
                yield (*before, name)

    return set(found(typer.main.get_command(cli.app).commands, ()))
