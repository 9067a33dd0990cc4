"""Tokens for SASL's OAUTHBEARER, from librdkafka's words (`streaming.kafka.credentials`).

Unsecured ones as librdkafka and Java make them (RFC 7515, algorithm "none"), for tests; those of an
identity provider, by client credentials (RFC 6749, section 4.4); or a file's, which another process
renews.
"""

from __future__ import annotations

import base64
import json
import math
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.error import HTTPError

from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError

from streaming.errors import ConfigError
from streaming.kafka import tls
from streaming.wire.tokens import TokenProvider

OAUTH = "sasl.oauthbearer."
ENDPOINT = f"{OAUTH}token.endpoint.url"
LIFE_SECONDS = 3600
ASK_SECONDS_MAX = 10
REFUSALS = (400, 401, 403)
"""HTTP's answers to a client, or a secret, that is not known (RFC 6749, section 5.2)."""
RENEW_SECONDS = 30
"""A token is renewed this long before it expires."""
YOUNG_SECONDS = 30.0
"""A token that was asked for so lately is the one that there is, and a refusal still holds."""


class Unsecured(TokenProvider):
    """Unsigned tokens with our name."""

    def __init__(self, words: Mapping[str, str]) -> None:
        super().__init__()
        self.words = words

    def token(self) -> str:
        """Return a new token."""
        now = int(time.time())
        claim = self.words.get("principalClaimName", "sub")
        life = int(self.words.get("lifeSeconds", LIFE_SECONDS))
        claims: dict[str, Any] = {"iat": now, "exp": now + life, claim: self.words["principal"]}
        if "scope" in self.words:
            claims[self.words.get("scopeClaimName", "scope")] = self.words["scope"].split(",")
        return ".".join((_encoded({"alg": "none"}), _encoded(claims), ""))


class OfFile(TokenProvider):
    """The token in a file."""

    def __init__(self, address: str, extensions: Mapping[str, str]) -> None:
        super().__init__()
        self.path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(address).path))
        self._extensions = dict(extensions)

    def token(self) -> str:
        """Return the file's current token; KafkaConnectionError if it cannot be read."""
        try:
            return self.path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise KafkaConnectionError(f"no token: {error}") from error

    def extensions(self) -> dict[str, str]:
        """Return what goes with each token."""
        return self._extensions


class _Known(NamedTuple):
    """A token, and until when it is used by two clocks.

    One that is set does not move the first, and the second goes on while a machine is suspended.
    """

    token: str
    since: float
    until: tuple[float, float]

    @classmethod
    def of(cls, token: str, expires_in: object) -> Self:
        """For as long as the provider says, and the token itself, if it is one that says so."""
        life = LIFE_SECONDS if expires_in is None else float(str(expires_in))
        life = min(life, _end_in(token) - time.time()) - RENEW_SECONDS
        now = time.monotonic()
        return cls(token, now, (now + life, time.time() + life))

    def is_good(self) -> bool:
        """Whether it is used now."""
        return time.monotonic() < self.until[0] and time.time() < self.until[1]


NO_TOKEN = _Known("", 0.0, (0.0, 0.0))


def _end_in(token: str) -> float:
    """The end that a JSON Web Token states (RFC 7519, `exp`); none if it is another one."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return float(claims["exp"])
    except (IndexError, ValueError, TypeError, KeyError):
        return math.inf


class OfProvider(TokenProvider):
    """Tokens of an identity provider, each used until shortly before its end."""

    def __init__(
        self, words: Mapping[str, str], client: str, secret: str, extensions: Mapping[str, str]
    ) -> None:
        super().__init__()
        self.words = dict(words)
        self.login = base64.b64encode(
            f"{urllib.parse.quote(client)}:{urllib.parse.quote(secret)}".encode()
        ).decode()
        scope = words.get(f"{OAUTH}scope", "")
        self.form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self._extensions = dict(extensions)
        self.known = NO_TOKEN
        self._refused = ("", 0.0)

    def token(self) -> str:
        """Return the current token, or a new one.

        Raises KafkaConnectionError, after which it is tried again, if the provider gives none;
        SaslAuthenticationFailedError if it does not accept the client or its secret.
        """
        known = self.known
        if not known.is_good():
            why, until = self._refused
            if time.monotonic() < until:  # asked for each address, it might lock the client out
                raise SaslAuthenticationFailedError(why)
            try:
                found = self._ask(self.words[ENDPOINT])
                known = _Known.of(str(found["access_token"]), found.get("expires_in"))
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                why = f"no token of {self.words[ENDPOINT]}: {error}"
                if isinstance(error, HTTPError) and error.code in REFUSALS:
                    self._refused = (why, time.monotonic() + YOUNG_SECONDS)
                    raise SaslAuthenticationFailedError(why) from error
                raise KafkaConnectionError(why) from error
            self.known = known  # another thread may have it forgotten before this one returns it
        return known.token

    def forget(self) -> None:
        """Ask for a new one: brokers may not know who signed the last any more.

        Not if it is that young: brokers that refuse all would have the provider asked at each try.
        """
        if time.monotonic() - self.known.since > YOUNG_SECONDS:
            self.known = NO_TOKEN

    def _ask(self, address: str) -> Any:
        request = urllib.request.Request(  # noqa: S310  (the user's own address)
            address,
            urllib.parse.urlencode(self.form).encode(),
            {"Authorization": f"Basic {self.login}", "Accept": "application/json"},
        )
        context = tls.authority(self.words) if address.startswith("https:") else None
        with urllib.request.urlopen(  # noqa: S310
            request, timeout=ASK_SECONDS_MAX, context=context
        ) as answer:
            return json.load(answer)

    def extensions(self) -> dict[str, str]:
        """Return what goes with each token."""
        return self._extensions


def provider(words: Mapping[str, str]) -> TokenProvider:
    """Return the provider that the words describe; ConfigError if they describe none."""
    if words.get("enable.sasl.oauthbearer.unsecure.jwt") == "true":
        pairs = (word.partition("=") for word in words.get(f"{OAUTH}config", "").split())
        claims = {name: value for name, _, value in pairs}
        if "principal" in claims:
            return Unsecured(claims)
        raise _none("sasl.oauthbearer.config has no principal=…")
    pairs = (word.partition("=") for word in words.get(f"{OAUTH}extensions", "").split(","))
    extensions = {name: value for name, _, value in pairs if name}
    endpoint = words.get(ENDPOINT, "")
    if endpoint.startswith("file:"):
        return OfFile(endpoint, extensions)
    client, secret = words.get(f"{OAUTH}client.id"), words.get(f"{OAUTH}client.secret")
    if endpoint and client and secret:
        return OfProvider(words, client, secret, extensions)
    raise _none(
        "there is no sasl.oauthbearer.token.endpoint.url with sasl.oauthbearer.client.id and "
        "sasl.oauthbearer.client.secret"
    )


def _none(why: str) -> ConfigError:
    return ConfigError(
        f"kafka.properties: no token can be had for SASL's OAUTHBEARER: {why}.",
        "Nothing was started.",
        "Add what is missing (docs/operations.md).",
    )


def _encoded(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
