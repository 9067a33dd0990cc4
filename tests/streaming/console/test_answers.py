"""What the console says before a command to channels is done, and behind it; who answers is not asked."""

from pathlib import Path

import pytest

from streaming.config import load_config
from streaming.console import actions, streams, waits
from streaming.console.access import Access
from streaming.kafka.newest import Search
from streaming.service.checkpoint import Checkpoint
from tests.console_helpers import Asking, code_of, serving, told
from tests.service_helpers import channel_topics, write_config

TOKEN = "a-token-of-the-test"
ONE, ALL = {"channel": code_of(b"<K>")}, {"blocked": "30 s"}
DRY = {"dry_run": "1"}
AT = "2026-11-24T03:00:01.000Z"
DONE = {"event": "command-done", "known": True, "at": AT}


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Asks a console; what is sent as ``answer`` is what the service answers."""
    path = Path(write_config(tmp_path, "127.0.0.1:9", {"p": channel_topics("p.")}))
    (tmp_path / "checkpoints" / "p").mkdir(parents=True)
    monkeypatch.setattr(waits, "CURRENT_SECONDS_MAX", 0.1)
    monkeypatch.setattr(streams, "search", lambda *_, **__: Search())
    with serving(path, Access(TOKEN)) as port:
        asking = Asking(port)
        assert asking("/login", {"token": TOKEN})[0] == 303
        token = asking.form_token()

        def asked(answer, **form):
            said = {**DONE, **answer, **({"dry_run": True} if "dry_run" in form else {})}
            monkeypatch.setattr(actions, "ask", lambda *_: said)
            code, page = asking("/p/p/channels", {**form, "form_token": token})
            assert code == 200, page
            return page

        asked.asking, asked.checkpoint = asking, Checkpoint.of(load_config(path), "p")
        yield asked


def test_a_release_says_what_it_gives_up_and_each_button_its_reason(ask):
    page = ask({"given_up": 1, "channels": 1}, op="skip", **ONE, **DRY)
    assert "<h1>Release &lt;K&gt;?</h1>" in page
    assert "1 label would be given up." in page
    assert "if it still comes, it is rejected." in page
    for reason in actions.REASONS:
        assert f'name="why" value="{reason}">Release: {reason}</button>' in page
    assert '<button class="do">Release</button>' in page, "for another reason"
    page = ask({"given_up": 1, "channels": 1}, op="skip", why=actions.REASONS[0], **ONE)
    assert "<h1>Done</h1>" in page
    assert "1 label was given up." in page
    assert 'class="do"' not in page


@pytest.mark.parametrize(("at", "is_current"), [(AT, False), (AT.replace("000Z", "001Z"), True)])
def test_who_waited_before_a_release_is_not_said_to_wait_behind_it(ask, at, is_current):
    """The answer is there before the batch's figures are."""
    ask.checkpoint.write_waiting({0: told((b"<K>", 0, 1, 1_000, 2))})
    ask.checkpoint.write_status({"at": at})
    page = ask({"given_up": 1, "channels": 1}, op="skip", why="lost", **ONE)
    assert ("Waits for label <strong>1</strong>" in page) == is_current
    page = ask({"given_up": 1, "channels": 1}, op="skip", **ONE, **DRY)
    assert "Waits for label <strong>1</strong>" in page


def test_one_beyond_the_lists_is_looked_for_in_its_pipeline(ask, monkeypatch):
    monkeypatch.setattr(waits, "_listed", lambda *_: 1)
    ask.checkpoint.write_waiting({0: told((b"another", 0, 1, 1_000, 2))})
    page = ask({"given_up": 1, "channels": 1}, op="skip", **ONE, **DRY)
    assert "<code>sequencer inspect CONFIG --pipeline p</code> shows it." in page


def test_all_at_once(ask):
    page = ask({"given_up": 7, "channels": 6}, op="skip", **ALL, **DRY)
    assert "<h1>Release them?</h1>" in page
    assert "7 labels would be given up in 6 channels." in page
    assert "if they still come, they are rejected." in page
    assert page.count('name="blocked" value="30 s"') == len(actions.REASONS) + 1


def test_a_channel_whose_key_is_empty_is_one_channel(ask):
    page = ask({"given_up": 1, "channels": 1}, op="skip", channel="", **DRY)
    assert "<h1>Release (empty)?</h1>" in page
    assert page.count('name="channel" value=""') == len(actions.REASONS) + 1
    assert '<a href="/p/p/channel/">' in page
    assert ask.asking("/p/p/channel/")[0] == 200


def test_a_form_that_names_no_channel_is_refused(ask):
    form = {"op": "skip", "blocked": "", "form_token": ask.asking.form_token(), **DRY}
    code, page = ask.asking("/p/p/channels", form)
    assert (code, "is refused" in page) == (400, True), page


@pytest.mark.parametrize(("op", "does"), [("seed", "Seed"), ("reset", "Reset")])
def test_others_are_done_for_a_reason_that_is_typed(ask, op, does):
    page = ask({"given_up": 2, "channels": 1}, op=op, label="9", **ONE, **DRY)
    assert f"<h1>{does} &lt;K&gt;?</h1>" in page
    assert f'<button class="do">{does}</button>' in page
    assert "Release" not in page
    assert ("What is held is rejected" in page) == (op == "reset")


def test_what_is_refused_has_nothing_to_press(ask):
    refused = {"event": "command-refused", "reason": "bad-label", "detail": "it is <no> number"}
    page = ask(refused, op="seed", label="x", **ONE, **DRY)
    assert "Refused: bad-label (it is &lt;no&gt; number). Nothing was changed." in page
    assert 'class="do"' not in page
