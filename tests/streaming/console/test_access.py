"""Who may act: tokens, sessions, the login in front."""

import pytest

from streaming.console import access as access_module
from streaming.console.access import (
    SESSION_SECONDS,
    SESSIONS_MAX,
    TRIES_MAX,
    TRIES_SECONDS,
    Access,
    TooManyTries,
    token_in,
)
from streaming.errors import ConfigError

TOKEN = "correct-horse-battery"


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_session_begins_with_the_token_and_ends(clock):
    access = Access(TOKEN, clock=clock)
    assert access.log_in("wrong", "eve") is None
    cookie = access.log_in(TOKEN, " ann ")
    session = access.session({}, cookie)
    assert session.user == "ann"
    assert access.session({}, "another") is access.session({}, None) is None
    clock.now += SESSION_SECONDS
    assert access.session({}, cookie) is None


def test_logging_out_ends_one_session(clock):
    access = Access(TOKEN, clock=clock)
    first, second = access.log_in(TOKEN, "a"), access.log_in(TOKEN, "b")
    access.log_out(first)
    assert access.session({}, first) is None
    assert access.session({}, second).user == "b"


def test_wrong_tokens_are_limited_also_before_the_right_one(clock):
    access = Access(TOKEN, clock=clock)
    for _ in range(TRIES_MAX):
        assert access.log_in("guess", "eve") is None
    with pytest.raises(TooManyTries):
        access.log_in(TOKEN, "ann")
    clock.now += TRIES_SECONDS + 1
    assert access.log_in(TOKEN, "ann") is not None


def test_the_oldest_session_goes_where_there_are_too_many(clock):
    access = Access(TOKEN, clock=clock)
    cookies = [access.log_in(TOKEN, str(n)) for n in range(SESSIONS_MAX + 1)]
    assert access.session({}, cookies[0]) is None
    assert access.session({}, cookies[1]).user == "1"


def test_a_header_counts_only_where_it_is_trusted():
    headers = {"x-user": "ann"}
    assert Access(TOKEN).session(headers, None) is None
    trusting = Access(user_header="x-user")
    assert trusting.session(headers, None).user == "ann"
    assert trusting.session({"x-user": "  "}, None) is None
    forms = {trusting.session({"x-user": user}, None).form_token for user in ("ann", "bob", "ann")}
    assert len(forms) == 2, "a form is of one user"


def test_nobody_logs_in_without_a_token():
    assert not Access().can_act
    assert Access().log_in("", "eve") is None


@pytest.mark.parametrize("text", ["", "short", "lang genug, aber mit ümlaut"])
def test_a_token_that_is_too_short_is_refused(tmp_path, text):
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigError):
        token_in(tmp_path / "token")
    with pytest.raises(ConfigError, match="cannot be read"):
        token_in(tmp_path / "none")


def test_a_token_is_read_without_its_line_end(tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert token_in(tmp_path / "token") == TOKEN


@pytest.fixture
def said(monkeypatch):
    said = []
    monkeypatch.setattr(access_module, "say", lambda text, **_: said.append(text))
    return said


def test_a_token_that_is_renewed_in_its_file_ends_the_sessions_of_the_one_before(tmp_path, said):
    """It was leaked: whoever logged in with it is out with the next request."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    access = Access(token_in(file), token_file=file)
    cookies = [access.log_in(TOKEN, user) for user in "ab"]
    assert all(access.session({}, cookie) for cookie in cookies)
    file.write_text(f"{TOKEN}-2\n")
    assert access.session({}, cookies[0]) is None
    assert access.log_in(TOKEN, "eve") is None
    new = access.log_in(f"{TOKEN}-2", "ann")
    assert access.session({}, new).user == "ann"
    assert access.session({}, cookies[1]) is None
    assert said == [f"{file} has another token; ended 2 sessions that began with the one before."]


@pytest.mark.parametrize("damage", ["gone", "empty"])
def test_while_the_tokens_file_cannot_be_read_the_last_one_stays(tmp_path, said, damage):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    access = Access(token_in(file), token_file=file)
    cookie = access.log_in(TOKEN, "ann")
    for _ in range(2):
        file.unlink() if damage == "gone" else file.write_text("")
        assert access.session({}, cookie).user == "ann"
        assert access.log_in(TOKEN, "bob") is not None
        (text,) = said
        assert str(file) in text
        assert text.endswith("The last token is still in use.")
        said.clear()
        file.write_text(TOKEN)
        assert access.session({}, cookie).user == "ann"
    assert said == []
