"""Names, passwords, certificates: what `[kafka] properties` say of them, in one set of words.

Java's clients and librdkafka say the same things differently. :func:`words` gives all of it in
librdkafka's words; where both are written, librdkafka's count.

============================  ==============================================================
librdkafka                    Java
============================  ==============================================================
sasl.mechanisms               sasl.mechanism
sasl.username, .password      sasl.jaas.config: username, password (PLAIN, SCRAM)
sasl.kerberos.principal, …    sasl.jaas.config: principal, keyTab, serviceName (GSSAPI)
sasl.oauthbearer.client.id,   sasl.jaas.config: clientId, clientSecret, scope, extension_…;
.client.secret, .scope, …     sasl.oauthbearer.client.credentials.client.id, .client.secret
sasl.oauthbearer.config       sasl.jaas.config: unsecuredLoginStringClaim_sub, …
ssl.ca.location, .pem         ssl.truststore.location, .certificates
ssl.certificate.*, .key.*     ssl.keystore.location, .certificate.chain, .key
============================  ==============================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from streaming.errors import ConfigError
from streaming.kafka import key_stores

Given = Mapping[str, str]

WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
JAAS = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
OIDC_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
"""Java's own way to tokens of an identity provider."""

EXTENSION = "extension_"
OAUTH = "sasl.oauthbearer."
KERBEROS = "sasl.kerberos."
IDENTIFICATION = "ssl.endpoint.identification.algorithm"


def words(given: Given) -> dict[str, str]:
    """Return properties' credentials and trusted authorities, by librdkafka's names.

    Raises ConfigError if something is missing, FileUnusable if a key store cannot be read.
    """
    return {**_sasl(given), **_authorities(given), **_certificate(given)}


def _sasl(given: Given) -> dict[str, str]:
    mechanism = (given.get("sasl.mechanisms") or given.get("sasl.mechanism") or "").upper()
    jaas = _jaas(given.get("sasl.jaas.config", ""))
    out = {"sasl.mechanisms": mechanism} if mechanism else {}
    if "sasl.username" in given or mechanism in WITH_PASSWORD:
        out |= _login(given, mechanism, jaas)
    if mechanism == "GSSAPI":
        out |= _kerberos(given, jaas)
    if mechanism == "OAUTHBEARER":
        out |= _oauth(given, jaas)
    return out


def _login(given: Given, mechanism: str, jaas: Given) -> dict[str, str]:
    """Name and password; ConfigError where one is missing, or they are a delegation token."""
    if jaas.get("tokenauth", "").lower() == "true":
        raise ConfigError(
            "kafka.properties.sasl.jaas.config has tokenauth: delegation tokens are not supported, "
            "and brokers would refuse one as a wrong password.",
            "Nothing was started.",
            "Give the service a user of its own (SCRAM, OAUTHBEARER, GSSAPI or a certificate).",
        )
    user = given.get("sasl.username", jaas.get("username"))
    password = given.get("sasl.password", jaas.get("password"))
    if user is None and "sasl.jaas.config" in given:
        raise ConfigError(
            "kafka.properties.sasl.jaas.config names no username and password.",
            "Nothing was started.",
            'Write …LoginModule required username="…" password="…"; or sasl.username and '
            "sasl.password.",
        )
    if user is None or password is None or not mechanism:
        has = "sasl.username" if user is not None else f"the mechanism {mechanism}"
        lacks = "sasl.username" if user is None else "sasl.password"
        lacks = lacks if mechanism else "sasl.mechanism"
        raise ConfigError(
            f"kafka.properties has {has}, but no {lacks}.",
            "Nothing was started.",
            f"Add it; mechanisms with a password are {', '.join(WITH_PASSWORD)}.",
        )
    return {"sasl.username": user, "sasl.password": password}


def _kerberos(given: Given, jaas: Given) -> dict[str, str]:
    java = {"principal": "principal", "keytab": "keyTab", "service.name": "serviceName"}
    found = {name: jaas.get(option) for name, option in java.items()}
    found |= {name: given[KERBEROS + name] for name in java if KERBEROS + name in given}
    return {KERBEROS + name: text for name, text in found.items() if text is not None}


def _oauth(given: Given, jaas: Given) -> dict[str, str]:
    names = ("client.id", "client.secret", "scope", "extensions", "token.endpoint.url", "config")
    found = {OAUTH + name: given[OAUTH + name] for name in names if OAUTH + name in given}
    unsecure = "enable.sasl.oauthbearer.unsecure.jwt"
    found |= {unsecure: given[unsecure]} if unsecure in given else {}
    java = {"client.id": "clientId", "client.secret": "clientSecret", "scope": "scope"}
    for name, option in java.items():
        credential = given.get(f"{OAUTH}client.credentials.{name}", jaas.get(option))
        if credential is not None:
            found.setdefault(OAUTH + name, credential)
    extensions = [
        f"{name.removeprefix(EXTENSION)}={text}"
        for name, text in jaas.items()
        if name.startswith(EXTENSION)
    ]
    if extensions:
        found.setdefault(f"{OAUTH}extensions", ",".join(extensions))
    claims = _unsecured(jaas)
    if claims and not found.keys() & {unsecure, f"{OAUTH}token.endpoint.url"}:
        found |= {unsecure: "true", f"{OAUTH}config": claims}
    _check_handler(given.get("sasl.login.callback.handler.class"))
    method = given.get(f"{OAUTH}method", "oidc" if f"{OAUTH}token.endpoint.url" in found else "")
    return {**found, f"{OAUTH}method": method} if method else found


def _unsecured(jaas: Given) -> str:
    """Claims of a token that nobody signs, as librdkafka writes them; empty where there is none."""
    own = {
        "unsecuredLoginStringClaim_sub": "principal",
        "unsecuredLoginPrincipalClaimName": "principalClaimName",
        "unsecuredLoginLifetimeSeconds": "lifeSeconds",
        "unsecuredLoginListClaim_scope": "scope",
    }
    return " ".join(f"{own[name]}={text}" for name, text in jaas.items() if name in own)


def _check_handler(handler: str | None) -> None:
    if handler is not None and handler not in OIDC_HANDLERS:
        raise ConfigError(
            "kafka.properties.sasl.login.callback.handler.class: the service cannot load "
            f"{handler}.",
            "Nothing was started.",
            "Leave it out, and write sasl.oauthbearer.token.endpoint.url with a client's id and "
            "secret, or with file:/… for a file that has the token.",
        )


def _authorities(given: Given) -> dict[str, str]:
    own = {name: given[name] for name in ("ssl.ca.location", "ssl.ca.pem") if name in given}
    if own:
        return own
    if "ssl.truststore.certificates" in given:
        return {"ssl.ca.pem": given["ssl.truststore.certificates"]}
    location = given.get("ssl.truststore.location")
    if location is None:
        return {}
    store = key_stores.read(location, given.get("ssl.truststore.password"), "ssl.truststore")
    return {"ssl.ca.location": location} if store is None else {"ssl.ca.pem": store.authorities}


def _certificate(given: Given) -> dict[str, str]:
    """Our own certificate and its key."""
    key = {"ssl.key.password": given["ssl.key.password"]} if "ssl.key.password" in given else {}
    own = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem")
    if any(name in given for name in own):
        return {**{name: given[name] for name in own if name in given}, **key}
    if "ssl.keystore.certificate.chain" in given:
        return {
            "ssl.certificate.pem": given["ssl.keystore.certificate.chain"],
            "ssl.key.pem": given.get("ssl.keystore.key", ""),
            **key,
        }
    location = given.get("ssl.keystore.location")
    if location is None:
        return key
    store = key_stores.read(location, given.get("ssl.keystore.password"), "ssl.keystore")
    if store is None:
        return {"ssl.certificate.location": location, "ssl.key.location": location, **key}
    return {"ssl.certificate.pem": store.chain, "ssl.key.pem": store.key}


def _jaas(text: str) -> dict[str, str]:
    """The options of a JAAS entry."""
    return {name: _unquoted(texts) for name, *texts in JAAS.findall(text)}


def _unquoted(texts: list[str]) -> str:
    double, single, bare = texts
    return re.sub(r"\\(.)", r"\1", double or single) or bare
