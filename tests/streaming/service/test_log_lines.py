"""Lines of the log about commands and about who waits."""

import json
from datetime import UTC, datetime, timedelta

from streaming import logs
from streaming.arrow import output
from streaming.service.log_lines import say_commands, say_waiting

PLACE = {"topic": "t.commands", "partition": 0, "offset": 7}


def said(capsys):
    """Each line without its time."""
    return [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]


def answer(**more):
    return output.answer("t", PLACE, "id", 0, more)[1]


def test_a_command_who_why_and_what_came_of_it(capsys):
    say_commands(
        "trades",
        [
            answer(op="skip", channel="IBM", to=7, by="ann", why="lost", channels=1, given_up=3),
            answer(op="add", group="G", members=["A", "B"], by="bob", version=4),
            answer(op="remove", group="X", by="bob", reason="unknown-group", detail="add it first"),
            answer(reason="unreadable", detail="no JSON object"),
        ],
    )
    assert said(capsys) == [
        "info    trades: command skip (channel IBM, to 7, by ann, why lost): "
        "done (channels 1, given_up 3)",
        'info    trades: command add (group G, members ["A", "B"], by bob): done (version 4)',
        "warning trades: command remove (group X, by bob): "
        "refused (reason unknown-group, detail add it first)",
        "warning trades: command unreadable: refused (reason unreadable, detail no JSON object)",
    ]


def test_what_comes_from_outside_stays_on_its_line(capsys):
    say_commands("t", [answer(op="skip", by="x\n2026 error\x1b[31m", why="y" * 1_000, channels=0)])
    (line,) = said(capsys)
    assert r"by x\n2026 error\x1b[31m, why yyy" in line
    assert len(line) < 350


def test_json_has_nothing_that_moves_a_cursor_or_ends_a_line(capsys):
    """Neither a terminal's control characters beyond ASCII, nor what others take for a line's end."""
    logs.use(logs.LogFormat.JSON)
    try:
        say_commands("t", [answer(op="skip", why="\x9b2J\x7f\x85\u2028\u202e שלום", by="\ud800")])
    finally:
        logs.use(logs.LogFormat.TEXT)
    line = capsys.readouterr().err.removesuffix("\n")
    assert line.isprintable()
    assert "שלום" in line
    told = json.loads(line)["answer"]
    assert (told["why"], told["by"]) == ("\x9b2J\x7f\x85\u2028\u202e שלום", "\ud800")


def waiting(seconds, channel="K"):
    since = datetime.now(UTC) - timedelta(seconds=seconds)
    return {"channel": channel, "next": 4, "epoch": 0, "held": 1_200, "since": since.isoformat()}


def test_who_has_waited_longest_is_named(capsys):
    say_waiting("t", "channel", [waiting(7_200, "a b"), *map(waiting, (90, 80, 70, 5))], 1_005)
    (line,) = said(capsys)
    assert line.startswith(
        "warning t: 1,005 channels wait, longest 'a b' for 4 (7,200 s, 1,200 held)"
    )
    assert line.count("; K for 4 (") == 2


def test_short_waits_are_no_news(capsys):
    say_waiting("t", "channel", [waiting(50)], 1)
    assert said(capsys) == []
