"""Tokens as an identity provider gives them, and as anybody can make them."""

import base64
import json
import time
from types import SimpleNamespace

import pytest
from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError

from streaming.errors import ConfigError
from streaming.kafka import tokens
from tests.token_endpoint import token_endpoint

OIDC = {
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "the id",
    "sasl.oauthbearer.client.secret": "pa:ss",
    "sasl.oauthbearer.scope": "kafka",
}


@pytest.fixture
def endpoint():
    with token_endpoint() as (address, handler):
        yield address, handler


def test_a_provider_is_asked_again_when_a_token_ends(endpoint):
    address, handler = endpoint
    source = tokens.provider({**OIDC, "sasl.oauthbearer.token.endpoint.url": address})
    assert [source.token(), source.token()] == ["token 1", "token 1"]
    login = base64.b64encode(b"the%20id:pa%3Ass").decode()
    form = {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    assert handler.asked == [(f"Basic {login}", form)]
    handler.life = tokens.RENEW_SECONDS
    short = tokens.provider({**OIDC, "sasl.oauthbearer.token.endpoint.url": address})
    assert [short.token(), short.token()] == ["token 2", "token 3"]


def signed(claims):
    """A token as providers give them; nobody reads its head and its signature here."""
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.sig"


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ({"access_token": signed({"exp": time.time() + 3600})}, True),
        ({"access_token": signed({"exp": time.time() + 10})}, False),  # for longer by default
        ({"access_token": signed({"exp": time.time() + 10}), "expires_in": 3600}, False),
        ({"access_token": signed({"sub": "s"}), "expires_in": "3600"}, True),
        ({"access_token": "a.b.c"}, True),
    ],
)
def test_a_token_is_used_no_longer_than_it_says(endpoint, answer, kept):
    address, handler = endpoint
    handler.answer = json.dumps(answer).encode()
    source = tokens.provider({**OIDC, "sasl.oauthbearer.token.endpoint.url": address})
    assert {source.token(), source.token()} == {answer["access_token"]}
    assert len(handler.asked) == (1 if kept else 2)


def test_a_token_ends_while_the_machine_is_suspended(endpoint, monkeypatch):
    address, _ = endpoint
    source = tokens.provider({**OIDC, "sasl.oauthbearer.token.endpoint.url": address})
    assert source.token() == "token 1"
    now, later = time.monotonic(), time.time() + 3600
    monkeypatch.setattr(tokens, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: later))
    assert source.token() == "token 2"


def test_what_goes_with_a_token(endpoint):
    address, _ = endpoint
    words = {**OIDC, "sasl.oauthbearer.token.endpoint.url": address}
    words["sasl.oauthbearer.extensions"] = "logicalCluster=lkc-1,identityPoolId=pool=2"
    source = tokens.provider(words)
    assert source.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "pool=2"}
    assert (
        tokens.provider({**OIDC, "sasl.oauthbearer.token.endpoint.url": address}).extensions() == {}
    )


@pytest.mark.parametrize("answer", [b'{"error": "unauthorized"}', b"[]", b"<html>"])
def test_a_provider_that_gives_no_token_is_asked_again(endpoint, answer):
    address, handler = endpoint
    handler.answer = answer
    source = tokens.provider({**OIDC, "sasl.oauthbearer.token.endpoint.url": address})
    with pytest.raises(KafkaConnectionError, match=rf"no token of {address}: "):
        source.token()
    handler.answer = None
    assert source.token() == "token 2"
    with pytest.raises(KafkaConnectionError, match="Connection refused"):
        tokens.provider(
            {**OIDC, "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:9/token"}
        ).token()


@pytest.mark.parametrize(("status", "refused"), [(400, True), (401, True), (500, False)])
def test_a_secret_that_was_renewed_is_a_refusal(endpoint, status, refused):
    """Kafka is not away then: who waits for it waits for a start with the new secret."""
    address, handler = endpoint
    handler.status = status
    kind = SaslAuthenticationFailedError if refused else KafkaConnectionError
    source = tokens.provider({**OIDC, "sasl.oauthbearer.token.endpoint.url": address})
    for _ in range(3):  # for each address that is tried
        with pytest.raises(kind, match=f"no token of {address}: HTTP Error {status}"):
            source.token()
    assert len(handler.asked) == (1 if refused else 3)


def test_a_token_in_a_file(tmp_path):
    path = tmp_path / "to ken"
    source = tokens.provider({"sasl.oauthbearer.token.endpoint.url": path.as_uri()})
    with pytest.raises(KafkaConnectionError, match=r"no token: .*No such file"):
        source.token()
    path.write_text("first\n")
    assert source.token() == "first"
    path.write_text("second")
    assert source.token() == "second"


def test_a_token_that_nobody_signed():
    given = {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice scope=a,b lifeSeconds=60",
    }
    head, claims, signature = tokens.provider(given).token().split(".")
    told = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    assert (told["sub"], told["scope"], signature) == ("alice", ["a", "b"], "")
    assert told["exp"] - told["iat"] == 60
    assert told["iat"] <= time.time()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "there is no sasl.oauthbearer.token.endpoint.url"),
        (OIDC, "there is no sasl.oauthbearer.token.endpoint.url"),
        ({"enable.sasl.oauthbearer.unsecure.jwt": "true"}, "no principal"),
    ],
)
def test_what_gives_no_token_is_refused(given, why):
    with pytest.raises(ConfigError, match=why):
        tokens.provider(given)
