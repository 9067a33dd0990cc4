"""`[kafka] properties`: which client knows which name, what the service sets itself, secrets.

The names are those of Kafka's Java client 3.9 (consumer and admin, as Spark's source uses them) and
of librdkafka 2.x; callbacks and what is of use to a developer of the client alone are left out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from streaming.settings.values import key_path


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


JAVA = _names("""
    allow.auto.create.topics auto.include.jmx.reporter check.crcs client.dns.lookup client.id
    client.rack connections.max.idle.ms default.api.timeout.ms enable.metrics.push
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes heartbeat.interval.ms
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records metadata.max.age.ms
    metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms retry.backoff.max.ms retry.backoff.ms sasl.client.callback.handler.class
    sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes
    session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
    ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type
""")
"""What Java's consumers and admin clients take."""

LIBRDKAFKA = _names("""
    allow.auto.create.topics api.version.fallback.ms api.version.request
    api.version.request.timeout.ms broker.address.family broker.address.ttl broker.version.fallback
    client.dns.lookup client.id client.rack connections.max.idle.ms debug enable.metrics.push
    enable.random.seed enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification
    https.ca.location https.ca.pem log.connection.close log_level max.in.flight
    max.in.flight.requests.per.connection message.copy.max.bytes message.max.bytes
    metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    plugin.library.paths receive.message.max.bytes reconnect.backoff.jitter.ms
    reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms
    sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism sasl.mechanisms
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config
    sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
    sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password sasl.username
    security.protocol socket.blocking.max.ms socket.connection.setup.timeout.ms
    socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes
    socket.send.buffer.bytes socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list
    ssl.endpoint.identification.algorithm ssl.engine.id ssl.engine.location ssl.key.location
    ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password ssl.providers
    ssl.sigalgs.list statistics.interval.ms topic.blacklist topic.metadata.propagation.max.ms
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
""")
"""What all of librdkafka's clients take."""

LIBRDKAFKA_PRODUCER = _names("""
    batch.num.messages batch.size compression.codec compression.level compression.type
    delivery.timeout.ms linger.ms message.send.max.retries message.timeout.ms produce.offset.report
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.max.ms queuing.strategy request.timeout.ms retries sticky.partitioning.linger.ms
    transaction.timeout.ms
""")
"""What its producers take besides."""

LIBRDKAFKA_CONSUMER = _names("""
    check.crcs consume.callback.max.messages coordinator.query.interval.ms fetch.error.backoff.ms
    fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms
    group.protocol.type group.remote.assignor heartbeat.interval.ms max.partition.fetch.bytes
    max.poll.interval.ms max.poll.records offset.store.method offset.store.path
    offset.store.sync.interval.ms queued.max.messages.kbytes queued.min.messages session.timeout.ms
    share.acknowledgement.mode
""")
"""What its consumers take besides. The service has none whose speed matters: passed to nobody."""

KNOWN = JAVA | LIBRDKAFKA | LIBRDKAFKA_PRODUCER | LIBRDKAFKA_CONSUMER

OWNED: dict[str, tuple[str, ...]] = {
    "acks": ("all", "-1"),
    "request.required.acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    "isolation.level": ("read_committed",),
    "partitioner": ("murmur2_random",),
    **dict.fromkeys(
        _names("""
        auto.commit.enable auto.commit.interval.ms auto.offset.reset delivery.report.only.error
        enable.auto.commit enable.auto.offset.store enable.gapless.guarantee enable.partition.eof
        group.id group.instance.id group.protocol interceptor.classes key.deserializer
        key.serializer partition.assignment.strategy partitioner.class transactional.id
        value.deserializer value.serializer
        """),
        (),
    ),
}
"""What the guarantees rest on, so the service sets it; values that say the same are let pass."""

ADDRESSES = ("bootstrap.servers", "metadata.broker.list")
SECRET = re.compile(
    r"password|secret|passphrase|jaas\.config|\.key\.pem|keystore\.key|oauthbearer\.config"
)
VARIABLE = re.compile(r"\$\{([^}]*)\}")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SPARK_VARIABLE = re.compile(r"\$\{(file:[^}]*|[A-Za-z_][A-Za-z0-9_]*)\}")
"""What else stands in `${…}` there, Spark replaces itself."""

FILE = "file:"
FILE_BYTES_MAX = 1_000_000
QUOTED = re.compile(r"""["']((?:[^"'\\]|\\.)+)["']""")
HIDDEN = "***"


def read(values: Any, environ: Mapping[str, str], faults: list[str]) -> dict[str, str]:
    """The properties as text, each variable filled in; what is wrong goes to ``faults``."""
    if not isinstance(values, dict):
        faults.append(
            "kafka.properties: must be a table; write for instance "
            'properties = { "security.protocol" = "SSL" }'
        )
        return {}
    texts: dict[str, str] = {}
    for name, value in values.items():
        path = key_path(["kafka", "properties", name])
        if isinstance(value, dict):
            faults.append(f'{path}: is a table; write the whole name in quotes: "{name}.…" = …')
        elif not isinstance(value, (str, bool, int, float)):
            faults.append(f"{path}: must be text, a number, true or false")
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            filled = fill(text, environ, path, faults)
            if wrong := _name_fault(name, filled):
                faults.append(f"{path}: {wrong}")
            elif filled is not None:
                texts[name] = filled
    return texts


def secrets(values: Any, filled: Mapping[str, str]) -> tuple[str, ...]:
    """What must not be shown: values from elsewhere, and those whose names say so."""
    if not isinstance(values, dict):
        return ()
    hidden = set()
    for name, text in filled.items():
        raw = values.get(name)
        if SECRET.search(name) or (isinstance(raw, str) and VARIABLE.search(raw)):
            hidden.add(text)
            hidden.update(QUOTED.findall(text) if "jaas" in name else ())
    return tuple(sorted(hidden, key=len, reverse=True))


def hide(text: str, hidden: Iterable[str]) -> str:
    """The text without secrets; those of one or two characters would hide everything."""
    for secret in hidden:
        if len(secret) > 2:
            text = text.replace(secret, HIDDEN)
    return text


def fill(
    text: str,
    environ: Mapping[str, str],
    path: str,
    faults: list[str],
    variables: re.Pattern[str] = VARIABLE,
) -> str | None:
    """The text with each ``${NAME}`` and ``${file:/path}`` filled in.

    None where one cannot be; what is wrong goes to ``faults``, under the key's ``path``.
    """
    values: dict[str, str] = {}
    wrong: list[str] = []
    for name in variables.findall(text):
        try:
            values[name] = _value(name, environ)
        except ValueError as error:
            wrong.append(f"{path}: {error}")
    faults += wrong
    return None if wrong else variables.sub(lambda at: values[at.group(1)], text)


def _value(name: str, environ: Mapping[str, str]) -> str:
    """What stands for a variable; ValueError where nothing does."""
    if name.startswith(FILE):
        return _file(name.removeprefix(FILE))
    if not VARIABLE_NAME.fullmatch(name):
        raise ValueError(f"${{{name}}} names no variable; write ${{NAME}} or ${{file:/path}}")
    if name not in environ:
        raise ValueError(f"the environment has no {name}; set it before the start")
    return environ[name]


def _file(path: str) -> str:
    """A file's text without the line's end that editors put behind it."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: it is no text in UTF-8") from error
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"{path} has more than {FILE_BYTES_MAX:,} bytes: this is no secret")
    return text.removesuffix("\n").removesuffix("\r")


def _name_fault(name: str, text: str | None) -> str | None:
    if name in ADDRESSES:
        return "write the address as kafka.bootstrap_servers instead"
    if name in OWNED:
        if text is None or text.lower() in OWNED[name]:
            return None
        return "the guarantees need the service's own setting; leave it out"
    if name in KNOWN:
        return None
    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.85)
    # What no client knows may be a plug-in's of the Java client; a slip of the pen is not.
    return f"no client knows it; did you mean {near[0]}?" if near else None
