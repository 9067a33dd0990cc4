"""Faults of a broker that asks for names: rights that are withdrawn, sessions that end (KIP-368)."""

from contextlib import contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.ports import HOST, free_port
from tests.chaos.fault import GOES_ON, Fault
from tests.kafka_helpers import SECONDS_MAX

SECONDS = 20
SESSION_SECONDS = 5
USER, PASSWORD = "chaos", "secret"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PLAIN = "listener.name.sasl_plaintext"
ENDING = {f"{PLAIN}.connections.max.reauth.ms": str(SESSION_SECONDS * 1000)}
KINDS = {
    "topics": ResourceType.TOPIC,
    "groups": ResourceType.GROUP,
    "transactional ids": ResourceType.TRANSACTIONAL_ID,
}
WITHDRAWN = (
    ("write", "topics"),
    ("read", "topics"),
    ("read", "groups"),
    ("write", "transactional ids"),
)
MAY = "goes on, or ends with 1 until it is given back"


class GuardedBroker(EmbeddedBroker):
    """A broker that knows a user at ``guarded``, who may do everything that is not denied."""

    def __init__(self, properties):
        port = free_port()
        known = {
            "listeners": f"SASL_PLAINTEXT://{HOST}:{port}",
            f"{PLAIN}.sasl.enabled.mechanisms": "PLAIN",
            f"{PLAIN}.plain.sasl.jaas.config": f'{MODULE} required user_{USER}="{PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        super().__init__(properties={**known, **properties})
        self.guarded = f"{HOST}:{port}"
        self.words = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def start(self):
        super().start()
        for kind in (*KINDS.values(), ResourceType.BROKER):
            name = "kafka-cluster" if kind is ResourceType.BROKER else "*"
            self._change("create_acls", _rule(AclBinding, kind, name))
        return self

    def deny(self, operation, kind):
        """Withdraw a right."""
        self._change("create_acls", _rule(AclBinding, KINDS[kind], "*", operation))

    def give_back(self, operation, kind):
        """Withdraw it no longer."""
        self._change("delete_acls", _rule(AclBindingFilter, KINDS[kind], "*", operation))

    def _change(self, how, rule):
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in getattr(admin, how)([rule]).values():
            future.result(SECONDS_MAX)


def _rule(made, kind, name, denied=None):
    """Of the user: everything of it is allowed, or one operation is denied."""
    operation = AclOperation[denied.upper()] if denied else AclOperation.ALL
    permission = AclPermissionType.DENY if denied else AclPermissionType.ALLOW
    pattern = ResourcePatternType.LITERAL
    return made(kind, name, pattern, f"User:{USER}", "*", operation, permission)


def withdrawn(operation, kind):
    """A right is withdrawn, and given back."""

    @contextmanager
    def act(place):
        place.kafka.deny(operation, kind)
        try:
            yield
        finally:
            place.kafka.give_back(operation, kind)

    return act


@contextmanager
def nothing(_place):
    """It happens by itself, to every connection."""
    yield


FAULTS = (
    *(
        Fault(
            f"the right to {operation} {kind} is withdrawn",
            withdrawn(operation, kind),
            (GOES_ON, 1),
            SECONDS,
            kafka=GuardedBroker,
            words=MAY,
        )
        for operation, kind in WITHDRAWN
    ),
    Fault(
        f"sessions end after {SESSION_SECONDS} s",
        nothing,
        seconds=SECONDS,
        kafka=GuardedBroker,
        properties=ENDING,
    ),
)
