"""The one table of `[kafka] properties`: what becomes of each name that Kafka's clients know.

Users write the names of Kafka's Java clients (4.x) or of librdkafka (2.x). A name is understood, or
has no effect in the service (`check` says so), or is refused, because it changes who is trusted, or
because the guarantees need another value. A name in no list is refused as well: no client knows it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


NUMBERS = _names("""
    connections.max.idle.ms metadata.max.age.ms reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    transaction.timeout.ms
""")
"""Understood; whole numbers above 0."""

UNDERSTOOD = NUMBERS | _names("""
    client.dns.lookup client.id compression.codec compression.type
    enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification https.ca.location
    https.ca.pem sasl.jaas.config sasl.kerberos.keytab sasl.kerberos.principal
    sasl.kerberos.service.name sasl.login.callback.handler.class sasl.mechanism sasl.mechanisms
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config
    sasl.oauthbearer.extensions sasl.oauthbearer.grant.type sasl.oauthbearer.method
    sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url sasl.password sasl.username
    security.protocol ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem
    ssl.cipher.suites ssl.crl.location ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
""")
"""Taken by the service, in the words of either client."""

NO_EFFECT = _names("""
    allow.auto.create.topics api.version.fallback.ms api.version.request
    api.version.request.timeout.ms auto.include.jmx.reporter batch.num.messages batch.size
    broker.address.family broker.address.ttl broker.version.fallback buffer.memory check.crcs
    client.rack compression.gzip.level compression.level compression.lz4.level
    compression.zstd.level consume.callback.max.messages coordinator.query.interval.ms debug
    default.api.timeout.ms delivery.timeout.ms enable.metrics.push enable.random.seed
    exclude.internal.topics fetch.error.backoff.ms fetch.max.bytes fetch.max.wait.ms
    fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms
    group.protocol.type group.remote.assignor heartbeat.interval.ms linger.ms log.connection.close
    log_level max.block.ms max.in.flight max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size
    message.copy.max.bytes message.max.bytes message.send.max.retries message.timeout.ms
    metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    offset.store.method offset.store.path offset.store.sync.interval.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
    partitioner.ignore.keys produce.offset.report queue.buffering.backpressure.threshold
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms
    queued.max.messages.kbytes queued.min.messages queuing.strategy receive.buffer.bytes
    receive.message.max.bytes reconnect.backoff.jitter.ms retries retry.backoff.max.ms
    retry.backoff.ms sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name send.buffer.bytes
    session.timeout.ms share.acknowledgement.mode socket.blocking.max.ms socket.keepalive.enable
    socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes
    socket.timeout.ms ssl.keymanager.algorithm ssl.protocol ssl.secure.random.implementation
    ssl.trustmanager.algorithm statistics.interval.ms sticky.partitioning.linger.ms topic.blacklist
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
    topic.metadata.refresh.sparse
""")
"""They tune clients that the service does not have: let pass, with a remark."""

NOT_SERVED = {
    **dict.fromkeys(
        _names("""
        plugin.library.paths sasl.client.callback.handler.class sasl.login.class security.providers
        ssl.engine.factory.class ssl.engine.id ssl.engine.location ssl.provider ssl.providers
        """),
        "the service can load no such plug-in; leave it out",
    ),
    **dict.fromkeys(
        _names("""
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
        sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file
        sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.metadata.authentication.type
        """),
        "the service gets tokens by client credentials, or from a file "
        '("sasl.oauthbearer.token.endpoint.url" = "file:/…")',
    ),
    **dict.fromkeys(
        _names("ssl.ca.certificate.stores ssl.curves.list ssl.sigalgs.list"),
        "the service has no such setting; set it in the system's OpenSSL, and leave it out here",
    ),
}
"""Properties that are refused: ignoring them would change whom the service trusts, or its user."""

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
        transaction.two.phase.commit.enable value.deserializer value.serializer
        """),
        (),
    ),
}
"""What the guarantees rest on, so the service sets it; values that say the same are let pass."""

ADDRESSES = ("bootstrap.servers", "metadata.broker.list")
WORDS = {
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "compression.codec": ("none", "gzip", "snappy", "lz4", "zstd"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "enable.sasl.oauthbearer.unsecure.jwt": ("true", "false"),
    "enable.ssl.certificate.verification": ("true", "false"),
    "sasl.mechanism": ("GSSAPI", "OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "sasl.mechanisms": ("GSSAPI", "OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "sasl.oauthbearer.grant.type": (
        "client_credentials",
        "urn:ietf:params:oauth:grant-type:client_credentials",
    ),
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "ssl.endpoint.identification.algorithm": ("https", "none", ""),
}
"""What may be written, in capitals or not."""


def fault(name: str, text: str | None) -> str | None:
    """What is wrong with a property, with what to write; None where nothing is.

    ``text`` is None where it cannot be known.
    """
    if name in ADDRESSES:
        return "write the address as kafka.bootstrap_servers instead"
    if name in OWNED:
        if text is None or text.lower() in OWNED[name]:
            return None
        return "the guarantees need the service's own setting; leave it out"
    if name in NOT_SERVED:
        return NOT_SERVED[name]
    if name not in UNDERSTOOD | NO_EFFECT:
        near = difflib.get_close_matches(name, UNDERSTOOD | NO_EFFECT, n=1, cutoff=0.8)
        hint = f"; did you mean {near[0]}?" if near else "; leave it out"
        return f"no client of Kafka knows it{hint}"
    return None if text is None else _value_fault(name, text)


def _value_fault(name: str, text: str) -> str | None:
    if name in NUMBERS and not (text.isascii() and text.isdigit() and int(text)):
        return f"must be a whole number of milliseconds, not {text!r}"
    words = WORDS.get(name)
    if words is not None and text.lower() not in {word.lower() for word in words}:
        allowed = ", ".join(f'"{word}"' for word in words)
        return f"{text!r} is unknown; write one of {allowed}"
    return None


def without_effect(given: Iterable[str]) -> list[str]:
    """Return those of the properties that have no effect in the service."""
    return sorted(NO_EFFECT.intersection(given))


def passed_over(given: Iterable[str]) -> list[str]:
    """Return a line that names them; none where there are none."""
    names = without_effect(given)
    return [f"kafka.properties: no effect in this service: {', '.join(names)}"] if names else []
