"""Tokens for kafka-python's OAUTHBEARER, from the properties that librdkafka gets its own by.

Unsecured ones as librdkafka and Java make them (RFC 7515, algorithm "none"), for trying things out;
or those of an identity provider, by client credentials (RFC 6749, section 4.4).
"""

from __future__ import annotations

import base64
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from streaming.errors import ConfigError

LIFE_SECONDS = 3600
ASK_SECONDS_MAX = 10
RENEW_SECONDS = 30
"""A token is asked for again so long before it ends."""


class Unsecured(AbstractTokenProvider):  # type: ignore[misc]
    """A token that says who we are, and that nobody has signed."""

    def __init__(self, words: Mapping[str, str]) -> None:
        super().__init__()
        self.words = words

    def token(self) -> str:
        """A new one."""
        now = int(time.time())
        claim = self.words.get("principalClaimName", "sub")
        life = int(self.words.get("lifeSeconds", LIFE_SECONDS))
        claims: dict[str, Any] = {"iat": now, "exp": now + life, claim: self.words["principal"]}
        if "scope" in self.words:
            claims[self.words.get("scopeClaimName", "scope")] = self.words["scope"].split(",")
        return ".".join((_encoded({"alg": "none"}), _encoded(claims), ""))


class OfProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens of an identity provider, each used until shortly before its end."""

    def __init__(self, endpoint: str, client: str, secret: str, scope: str) -> None:
        super().__init__()
        self.endpoint = endpoint
        self.login = base64.b64encode(
            f"{urllib.parse.quote(client)}:{urllib.parse.quote(secret)}".encode()
        ).decode()
        self.form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self.known = ("", 0.0)

    def token(self) -> str:
        """The one that is known, or a new one. OSError where the provider does not answer."""
        token, until = self.known
        if time.monotonic() < until:
            return token
        request = urllib.request.Request(  # noqa: S310  (the user's own address)
            self.endpoint,
            urllib.parse.urlencode(self.form).encode(),
            {"Authorization": f"Basic {self.login}", "Accept": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=ASK_SECONDS_MAX) as answer:  # noqa: S310
            told = json.load(answer)
        life = float(told.get("expires_in", LIFE_SECONDS))
        self.known = (str(told["access_token"]), time.monotonic() + life - RENEW_SECONDS)
        return self.known[0]


def provider(given: Mapping[str, str]) -> AbstractTokenProvider:
    """The provider that librdkafka's properties describe; ConfigError where they describe none."""
    if given.get("enable.sasl.oauthbearer.unsecure.jwt") == "true":
        pairs = (word.partition("=") for word in given.get("sasl.oauthbearer.config", "").split())
        words = {name: value for name, _, value in pairs}
        if "principal" in words:
            return Unsecured(words)
        raise _none("sasl.oauthbearer.config has no principal=…")
    oidc = "sasl.oauthbearer."
    endpoint = given.get(f"{oidc}token.endpoint.url")
    client, secret = given.get(f"{oidc}client.id"), given.get(f"{oidc}client.secret")
    if given.get(f"{oidc}method", "").lower() == "oidc" and endpoint and client and secret:
        return OfProvider(endpoint, client, secret, given.get(f"{oidc}scope", ""))
    raise _none("there is no sasl.oauthbearer.method = oidc with an endpoint, client id and secret")


def _none(why: str) -> ConfigError:
    return ConfigError(
        f"kafka.properties: no token can be had for SASL's OAUTHBEARER: {why}.",
        "Nothing was started.",
        "Add librdkafka's properties for it (docs/operations.md).",
    )


def _encoded(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
