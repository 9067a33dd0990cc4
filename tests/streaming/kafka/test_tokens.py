"""Tokens as an identity provider gives them, and as anybody can make them."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar
from urllib.parse import parse_qs

import pytest
from kafka.errors import KafkaConnectionError

from streaming.errors import ConfigError
from streaming.kafka import tokens

OIDC = {
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "the id",
    "sasl.oauthbearer.client.secret": "pa:ss",
    "sasl.oauthbearer.scope": "kafka",
}


class Endpoint(BaseHTTPRequestHandler):
    """Gives numbered tokens; keeps what it was asked."""

    asked: ClassVar[list] = []
    life = 3600
    answer = None

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.asked.append((self.headers["Authorization"], form))
        told = {"access_token": f"token {len(self.asked)}", "expires_in": self.life}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer or json.dumps(told).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    handler = type("Fresh", (Endpoint,), {"asked": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token", handler
    server.shutdown()
    thread.join(30)
    server.server_close()


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
