"""SASL's GSSAPI (Kerberos) on kafka-python's connections, with a keytab and a principal.

By itself kafka-python authenticates as the environment's principal (kinit's ticket, or the keytab
of KRB5_CLIENT_KTNAME). If properties name a principal or a keytab, MIT Kerberos gets tickets with
them, and renews these before they expire.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from streaming.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Login:
    """Our principal and the service; passed on in kafka-python's `sasl_kerberos_name`."""

    service: str
    principal: str | None
    keytab: str | None

    def credentials(self) -> Any:
        """Return the credentials for a security context; GSSError if there are none."""
        import gssapi  # noqa: PLC0415  (optional)

        name = None
        if self.principal is not None:
            name = gssapi.Name(self.principal, gssapi.NameType.kerberos_principal)
        if self.keytab is None:
            return gssapi.Credentials(name=name, usage="initiate")
        tickets = f"MEMORY:sequencer-{self.principal or self.keytab}"
        store: dict[str | bytes, str | bytes] = {
            "client_keytab": f"FILE:{self.keytab}",
            "ccache": tickets,
        }
        return gssapi.Credentials(name=name, usage="initiate", store=store)


class Kerberos(SaslMechanismGSSAPI):  # type: ignore[misc]
    """kafka-python's mechanism; its constructor takes no credentials."""

    def __init__(self, **config: Any) -> None:
        login = config.get("sasl_kerberos_name")
        if not isinstance(login, Login):
            super().__init__(**config)
            return
        import gssapi  # noqa: PLC0415  (optional)

        self._is_done = self._is_authenticated = False
        self.auth_id = f"{login.service}@{config['host']}"
        wanted = gssapi.Name(self.auth_id, gssapi.NameType.hostbased_service)
        self.gssapi_name = wanted.canonicalize(gssapi.MechType.kerberos)
        try:
            self._client_ctx = gssapi.SecurityContext(
                name=self.gssapi_name, creds=login.credentials(), usage="initiate"
            )
            self._next_token = self._client_ctx.step(None)
        except gssapi.exceptions.GSSError as error:  # the realm may be away: asked again
            raise KafkaConnectionError(f"no Kerberos ticket: {error}") from error


register_sasl_mechanism("GSSAPI", Kerberos, overwrite=True)


def login(words: Mapping[str, str]) -> Login:
    """Return the login that librdkafka's properties describe; ConfigError without `gssapi`."""
    if importlib.util.find_spec("gssapi") is None:
        raise ConfigError(
            "kafka.properties: sasl.mechanism = GSSAPI needs Python's gssapi, which is not "
            "installed.",
            "Nothing was started.",
            "Install spark-sequencer[kerberos], on a cluster for the workers, too; it needs "
            "Kerberos' headers (Debian: libkrb5-dev).",
        )
    prefix = "sasl.kerberos."
    return Login(
        words.get(f"{prefix}service.name", "kafka"),
        words.get(f"{prefix}principal"),
        words.get(f"{prefix}keytab"),
    )
