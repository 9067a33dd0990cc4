"""A schema registry, asked by its REST interface: schemas by their ids.

`GET /schemas/ids/ID` gives a schema, `GET /subjects/NAME/versions/NUMBER?deleted=true` one that it
refers to; without `deleted` the first answers for schemas whose references the second denies.
A registry's own 404 (error code 404xx) says that there is none; whatever else is not a schema says
that the registry is away: a proxy before it answers 404, too, and so does a wrong address.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from streaming.config import Config
from streaming.errors import FileUnusable, RegistryUnavailable
from streaming.kafka import tls

SCHEMA_BYTES_MAX = 2**20
BODY_BYTES_MAX = 2 * SCHEMA_BYTES_MAX
"""With what JSON makes of a schema's quotes."""
REFERENCES_MAX = 100
ANSWER_SECONDS_MAX = 10
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
TOO_LARGE = f"it has more than {SCHEMA_BYTES_MAX:,} bytes"

Answer = dict[str, Any]


class TooMuch(Exception):  # noqa: N818  (no fault of the registry's)
    """A schema is larger than the service reads, or refers to too many others; says which."""


class Registry:
    """A registry at one of several addresses; connections are kept.

    ``properties`` are Confluent's words for its clients. ``renew`` is called if no address
    answers: it may change them for the next question.
    """

    def __init__(
        self,
        addresses: str,
        properties: Mapping[str, str],
        renew: Callable[[], None] = lambda: None,
    ) -> None:
        self.addresses = addresses
        self._urls = [each.strip().rstrip("/") for each in addresses.split(",")]
        self._properties = properties
        self._renew = renew
        self._connections: dict[str, http.client.HTTPConnection] = {}

    @classmethod
    def of(cls, config: Config) -> Registry:
        """Return the one that the configuration names."""
        kafka = config.kafka
        return cls(kafka.schema_registry, kafka.schema_registry_properties, config.renew)

    def validate(self) -> None:
        """FileUnusable where certificates cannot be read."""
        for url in self._urls:
            self._connection(url)
        self.close()

    def schema(self, number: int) -> Answer | None:
        """Return a schema by its id; None where there is none. RegistryUnavailable, TooMuch."""
        return self._get(f"/schemas/ids/{number}")

    def references(self, schema: Answer) -> dict[str, Answer]:
        """Return what a schema refers to, by name, each behind what it refers to itself.

        RegistryUnavailable, TooMuch.
        """
        found: dict[str, Answer] = {}
        self._follow(schema, found, ())
        return found

    def _follow(self, schema: Answer, found: dict[str, Answer], above: tuple[str, ...]) -> None:
        for each in schema.get("references") or ():
            name = str(each["name"])
            if name in found or name in above:
                continue
            if len(found) + len(above) >= REFERENCES_MAX:
                raise TooMuch(f"it refers to more than {REFERENCES_MAX} others")
            subject = urllib.parse.quote(str(each["subject"]), safe="")
            path = f"/subjects/{subject}/versions/{int(each['version'])}?deleted=true"
            answer = self._get(path)
            if answer is None:
                raise TooMuch(f"it refers to {name}, which the registry has not got")
            self._follow(answer, found, (*above, name))
            found[name] = answer

    def is_there(self) -> None:
        """RegistryUnavailable where it does not answer."""
        self._get("/schemas/types", anything=True)

    def close(self) -> None:
        """Let go of the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _get(self, path: str, *, anything: bool = False) -> Answer | None:
        why = ""
        for url in self._urls:
            try:
                status, body = self._ask(url, path)
            except (OSError, http.client.HTTPException) as error:
                self._connections.pop(url, None)
                why = f"{type(error).__name__}: {error}"
                continue
            found = status in (http.HTTPStatus.OK, http.HTTPStatus.NOT_FOUND)
            if (anything and found) or (status == http.HTTPStatus.NOT_FOUND and _is_missing(body)):
                return None
            if status == http.HTTPStatus.OK:
                answer = _answer(body)
                if answer is not None:
                    self._urls.remove(url)
                    self._urls.insert(0, url)  # it is asked first next time
                    return answer
                why = f"what it answers to {path} is not a schema"
            else:
                why = f"it answers {status} to {path}"
        self._renew()
        raise RegistryUnavailable(
            f"The schema registry at {self.addresses} is away ({why}).",
            "The service and its topics are unchanged.",
            "Check the address (kafka.schema_registry), the network and the user "
            "(kafka.schema_registry_properties), then run it again.",
        )

    def _ask(self, url: str, path: str) -> tuple[int, bytes]:
        """Return status and body; once more over a new connection where a kept one has ended."""
        whole = urllib.parse.urlsplit(url).path + path
        headers = {"Accept": ACCEPT, **_authorization(self._properties)}
        for is_last in (url not in self._connections, True):
            connection = self._connection(url)
            try:
                connection.request("GET", whole, headers=headers)
                answer = connection.getresponse()
                body = answer.read(BODY_BYTES_MAX + 1)
            except (OSError, http.client.HTTPException):
                self._connections.pop(url).close()
                if is_last:
                    raise
            else:
                if len(body) > BODY_BYTES_MAX:
                    self._connections.pop(url).close()  # there is more to come
                return answer.status, body
        raise AssertionError("the second time is the last")

    def _connection(self, url: str) -> http.client.HTTPConnection:
        if url not in self._connections:
            parts = urllib.parse.urlsplit(url)
            host, port = parts.hostname or "", parts.port
            if parts.scheme == "https":
                context = _context(self._properties)
                self._connections[url] = http.client.HTTPSConnection(
                    host, port, timeout=ANSWER_SECONDS_MAX, context=context
                )
            else:
                self._connections[url] = http.client.HTTPConnection(
                    host, port, timeout=ANSWER_SECONDS_MAX
                )
        return self._connections[url]


def _answer(body: bytes) -> Answer | None:
    if len(body) > BODY_BYTES_MAX:
        raise TooMuch(TOO_LARGE)
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(body)
        if isinstance(found, dict) and isinstance(found.get("schema"), str):
            if len(found["schema"]) > SCHEMA_BYTES_MAX:
                raise TooMuch(TOO_LARGE)
            return found
    return None


def _is_missing(body: bytes) -> bool:
    """Return whether a registry answered that it has not got what was asked for."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(body)
        code = found.get("error_code") if isinstance(found, dict) else None
        return isinstance(code, int) and code // 100 == http.HTTPStatus.NOT_FOUND
    return False


def _authorization(properties: Mapping[str, str]) -> dict[str, str]:
    if user := properties.get("basic.auth.user.info"):
        return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
    if token := properties.get("bearer.auth.token"):
        return {"Authorization": f"Bearer {token}"}
    return {}


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = tls.trusting(cafile=properties.get("ssl.ca.location"))
        if certificate := properties.get("ssl.certificate.location"):
            key, password = (properties.get(f"ssl.key.{name}") for name in ("location", "password"))
            context.load_cert_chain(certificate, key, password or "")
    except (OSError, ssl.SSLError) as error:
        raise FileUnusable(
            f"kafka.schema_registry_properties: certificates cannot be read: {error}.",
            "Nothing was started.",
            "Name files in PEM.",
        ) from error
    return context
