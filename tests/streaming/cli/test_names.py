"""Names come from outside: they are shown escaped, whatever they hold, and can be pasted back."""

import io
import json
import shlex

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from streaming.arrow.key_text import escaped, key_to_json, unescaped, word, word_of
from streaming.cli.asking import channel_named, tell
from streaming.cli.blocked import list_waiting
from streaming.cli.inspect import _details, _table

HOSTILE = [
    b"[/foo]",
    b"[red]x",
    b"\x1b[31mred\x1b]0;title\x07",
    rb"a\b",
    b"\xff\x00",
    b"a b",
    b"\n",
]
KEYS = st.one_of(
    st.binary(max_size=30), st.text(max_size=20).map(str.encode), st.sampled_from(HOSTILE)
)


@given(KEYS)
def test_what_is_shown_reads_back(key):
    assert escaped(key).isprintable()
    assert unescaped(escaped(key)) == key
    (pasted,) = shlex.split(word(key))
    assert channel_named(pasted, None) == key
    assert word_of(key_to_json(key)) == word(key)


@given(KEYS, KEYS)
def test_different_keys_look_different(one, two):
    assert (escaped(one) == escaped(two)) == (one == two)


@pytest.mark.parametrize("text", ["\\", r"a\b", r"\x4", r"\ud800", r"\Uffffffff"])
def test_other_backslashes_are_refused(text):
    with pytest.raises(ValueError, match=r"backslash|character"):
        unescaped(text)


def row(key):
    return {"channel": key_to_json(key), "next": "[/bar]\x1b[0m", "held": 1, "missing": [(0, 2)]}


def test_inspect_shows_hostile_names(capsys):
    _table([row(key) for key in HOSTILE], ("channel", "next", "held", "missing"), "channel", 20)
    _details(row(HOSTILE[2]), "channel")
    out = capsys.readouterr().out
    assert "\x1b" not in out
    for key in HOSTILE:
        assert word(key) in out
    assert "[/bar]" in out


def test_so_does_the_list_of_who_waits():
    output = io.StringIO()
    since = "2026-11-22T09:14:07.000Z"
    waiting = [
        {"channel": key_to_json(key), "next": 1, "epoch": 0, "held": 1, "since": since}
        for key in HOSTILE
    ]
    counts = {"blocked": len(HOSTILE), "held": 9, "age_seconds": 1.0}
    figures = {"p": {"discipline": "channel", "waiting": waiting, **counts}}
    list_waiting(Console(file=output, width=120), figures)
    assert "\x1b" not in output.getvalue()
    for key in HOSTILE:
        assert word(key) in output.getvalue()


def test_who_waits_in_protocols_between_shards_is_listed_elsewhere():
    output = io.StringIO()
    counts = {"blocked": 2, "held": 9, "age_seconds": 1.0}
    figures = {"bus": {"discipline": "multicast", "waiting": [], **counts}}
    list_waiting(Console(file=output, width=120), figures)
    assert "sequencer inspect CONFIG --pipeline bus" in output.getvalue()


def test_so_do_answers(capsys):
    refused = {"event": "command-refused", "reason": "unknown-group", "detail": "none is \x1b[31mG"}
    with pytest.raises(typer.Exit):
        tell(refused, as_json=False)
    assert capsys.readouterr().out == "refused: unknown-group (none is \\x1b[31mG)\n"


def test_one_is_one(capsys):
    tell({"event": "command-done", "channels": 1, "given_up": 2_000}, as_json=False)
    tell({"event": "command-done", "channels": 0, "given_up": 1, "dry_run": True}, as_json=False)
    assert capsys.readouterr().out == (
        "done: 1 channel, 2,000 labels given up\nwould be done: 0 channels, 1 label given up\n"
    )


def test_a_command_to_a_channel_that_nobody_knows_may_be_refused(capsys):
    answer = {"event": "command-refused", "reason": "bad-label", "channel": "K", "known": False}
    with pytest.raises(typer.Exit) as ended:
        tell(answer, as_json=False)
    assert ended.value.exit_code == 1
    assert capsys.readouterr().out == "refused: bad-label (no more is known)\n"


@pytest.mark.parametrize("as_json", [False, True])
def test_a_channel_that_nobody_knows(capsys, as_json):
    answer = {"event": "command-done", "channel": {"base64": "/w=="}, "channels": 0, "given_up": 0}
    tell(answer, as_json=as_json)
    with pytest.raises(typer.Exit) as ended:
        tell({**answer, "known": False}, as_json=as_json)
    assert ended.value.exit_code == 1
    first, second = capsys.readouterr().out.splitlines()
    if as_json:
        assert json.loads(second)["known"] is False
    else:
        assert first == "done: 0 channels, 0 labels given up"
        assert second == "nothing done: nobody knows the channel '\\xff'"
    tell({**answer, "known": False, "channels": 1}, as_json=as_json)  # a seed makes it known
