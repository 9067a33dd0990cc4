"""What the console of the shop (`test_console_live`) answers to somebody without a browser."""

import re

from tests.console_helpers import code_of

TOKEN = "a-token-of-the-test"
BAD = b"<script>alert(1)</script>"


def what_waits_is_shown(ask):
    code, page = ask("/p/p/blocked")
    assert code == 200
    assert "IBM" in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "form_token" not in page, "nobody is logged in"
    policy = ask.answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    live = ask("/p/p/blocked?q=IBM", **{"x-fragment": "1"})[1]
    assert "<html" not in live
    assert "IBM" in live
    assert "script" not in live
    _, page = ask(f"/p/p/channel/{code_of(b'IBM')}")
    assert "Waits for label <strong>2</strong>" in page
    assert page.count('class="mark delivered"') == 4, "two arrivals, two deliveries"
    assert page.count('class="mark held"') == 2
    assert page.count('class="mark rejected"') == 1
    assert "rejected: duplicate" in page


def forged_commands_are_refused(ask, command):
    """Returns the form token of a session that began after that."""
    assert ask("/p/p/channels", {**command, "dry_run": "1"})[0] == 403
    assert ask("/login", {"token": "wrong"})[0] == 403
    assert ask("/login", {"token": TOKEN, "user": "ann"})[0] == 303
    assert "HttpOnly" in ask.answer.headers["Set-Cookie"]
    assert "SameSite=lax" in ask.answer.headers["Set-Cookie"]
    forged = {**command, "form_token": "x", "why": "forged"}
    assert ask("/p/p/channels", forged)[0] == 403
    token = ask.form_token()
    site = {"Origin": "http://evil.example"}
    own = {**command, "why": "forged", "form_token": token}
    assert ask("/p/p/channels", own, **site)[0] == 403
    return token


def what_happened_is_shown(ask):
    _, page = ask("/p/p/events?kind=commands")
    assert "ann" in page
    assert "lost &lt;i&gt;" in page
    assert "forged" not in page
    _, page = ask("/p/p/records?key=IBM&label=3")
    link, place = re.search(r'href="(/p/p/record/[^"]+)">([^<]+)</a>', page).groups()
    assert place in ask("/p/p/records?key=IBM&header=label%3D3")[1], "found by a header"
    assert place not in ask("/p/p/records?key=IBM&header=label%3D5")[1]
    assert ask(f"/p/p/records?place={place}")[0] == 303
    assert ask.answer.headers["location"] == link, "found by its place"
    _, page = ask(link)
    assert "&lt;b&gt;3" in page
    assert ask("/p/p/rejects?reason=duplicate")[1].count("/p/p/record/") == 5
    assert "out of order" in ask("/p/p/disorder")[1]


def others_are_asked_for_and_done(ask, token):
    """Seed, all at once, and reset, each with its effect first."""
    bad = {"channel": code_of(BAD), "form_token": token, "why": "a test"}
    for form, said in (
        ({**bad, "op": "seed", "label": "2", "dry_run": "1"}, "2 labels would be given up"),
        (
            {"op": "skip", "blocked": "1 ms", "dry_run": "1", "form_token": token},
            "7 labels would be given up in 6 channels",
        ),
        ({**bad, "op": "reset", "dry_run": "1"}, "What is held is rejected"),
        ({**bad, "op": "reset"}, "reset: 1 channel."),
    ):
        code, page = ask("/p/p/channels", form)
        assert (code, said in page) == (200, True), page
