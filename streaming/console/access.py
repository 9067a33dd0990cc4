"""Who may read the console and who may act: a token from a file, or a login in front.

A browser that gave the token gets a session in a cookie that scripts cannot read and that other
sites' requests do not carry (HttpOnly, SameSite=Lax). Every form has the session's form token
besides, so that a forged request fails twice.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from streaming.errors import ConfigError
from streaming.logs import count, say

COOKIE = "sequencer-console"
SESSIONS_MAX = 1_000
SESSION_SECONDS = 12 * 3600
TRIES_MAX, TRIES_SECONDS = 10, 60
"""Wrong tokens in this long, from anybody; then nobody can log in for a while."""
TOKEN_CHARACTERS_MIN = 16
USER_CHARACTERS_MAX = 100


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who may act: the name that stands in commands as `by`, the token of forms."""

    user: str
    form_token: str
    until: float


class TooManyTries(Exception):  # noqa: N818  (reads as what it is)
    """Too many wrong tokens were tried lately."""


@dataclass
class Access:
    """The sessions. ``token``: what a login needs (None: nobody logs in).

    ``token_file``: where the token is read again (None: nowhere). Once it has another one, the
    sessions that began with the one before are ended.

    ``user_header``: the header in which a login in front names the user; trusted because the person
    who started the console said so. ``is_open``: whether reading needs no session. The lock guards
    what request threads share.
    """

    token: str | None = None
    user_header: str | None = None
    is_open: bool = True
    clock: Callable[[], float] = time.monotonic
    token_file: Path | None = None
    _is_unreadable: bool = False
    _sessions: OrderedDict[str, Session] = field(default_factory=OrderedDict)
    _wrong: deque[float] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    @property
    def can_act(self) -> bool:
        """Whether anybody may act at all."""
        return self.token is not None or self.user_header is not None

    def session(self, headers: Mapping[str, str], cookie: str | None) -> Session | None:
        """Return the session of a request; None where nobody is logged in."""
        if self.user_header is not None:
            user = headers.get(self.user_header, "").strip()[:USER_CHARACTERS_MAX]
            if user:
                digest = hmac.new(self._secret, user.encode(), hashlib.sha256).hexdigest()
                return Session(user, digest, self.clock() + SESSION_SECONDS)
        if cookie is not None:
            self._renew_token()
        with self._lock:
            found = self._sessions.get(cookie or "")
            return found if found is not None and found.until > self.clock() else None

    def log_in(self, token: str, user: str) -> str | None:
        """Begin a session and return its cookie; None where the token is wrong.

        Raises TooManyTries.
        """
        self._renew_token()
        now = self.clock()
        with self._lock:
            while self._wrong and self._wrong[0] < now - TRIES_SECONDS:
                self._wrong.popleft()
            if len(self._wrong) >= TRIES_MAX:
                raise TooManyTries
            if self.token is None or not hmac.compare_digest(token.encode(), self.token.encode()):
                self._wrong.append(now)
                return None
            cookie = secrets.token_urlsafe(32)
            name = user.strip()[:USER_CHARACTERS_MAX] or "console"
            self._sessions[cookie] = Session(name, secrets.token_urlsafe(32), now + SESSION_SECONDS)
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
            return cookie

    def log_out(self, cookie: str | None) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(cookie or "", None)

    def _renew_token(self) -> None:
        """Read the token's file; if it cannot be read, the last token stays, which is said once."""
        if self.token_file is None:
            return
        try:
            token = token_in(self.token_file)
        except ConfigError as error:
            if not self._is_unreadable:
                say(f"{error.message} The last token is still in use.", level="warning")
            self._is_unreadable = True
            return
        self._is_unreadable = False
        with self._lock:
            if token == self.token:
                return
            self.token = token
            count_ended = len(self._sessions)
            self._sessions.clear()
        ended = f"ended {count(count_ended, 'session')} that began with the one before"
        say(f"{self.token_file} has another token; {ended}.")


def token_in(path: Path) -> str:
    """Return the token that a file holds. ConfigError where it cannot be read or is too short."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ConfigError(
            f"The token file {path} cannot be read: {why}.",
            "Nothing was started.",
            "Name a file with a token of 16 characters or more, readable by this user alone.",
        ) from error
    if len(token) < TOKEN_CHARACTERS_MIN or not token.isascii():
        raise ConfigError(
            f"The token in {path} is shorter than {TOKEN_CHARACTERS_MIN} ASCII characters.",
            "Nothing was started.",
            "Make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))' > FILE",
        )
    return token
