"""What Kafka may answer at any time: slower, please; whom do you mean; never heard of it."""

from contextlib import contextmanager
from functools import partial

from confluent_kafka.admin import AdminClient
from kafka.protocol.admin import AlterClientQuotasRequest, UpdateFeaturesRequest

from streaming.kafka.choice import opened
from tests.chaos.fault import Fault
from tests.chaos.place import CLIENT
from tests.kafka_helpers import SECONDS_MAX

SECONDS = 30
FORGETFUL = {
    "transactional.id.expiration.ms": "10000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}
FORGETS_SECONDS = 20
QUOTAS = {"producer_byte_rate": 100.0, "consumer_byte_rate": 100.0, "request_percentage": 0.05}
"""So little that answers wait for minutes."""

UP, DOWN = 1, 2
"""Of an upgrade, and of a downgrade that loses nothing (KIP-584)."""
Entry = AlterClientQuotasRequest.EntryData


def set_quota(place, name, value):
    """Of the service; None: none."""
    entry = Entry(
        entity=[Entry.EntityData(entity_type="client-id", entity_name=CLIENT)],
        ops=[Entry.OpData(key=name, value=value or 0.0, remove=value is None)],
    )
    request = partial(AlterClientQuotasRequest, entries=[entry], validate_only=False)
    with opened({"bootstrap.servers": place.kafka.bootstrap}) as brokers:
        answer = brokers.ask(request, lambda _: (), seconds=SECONDS_MAX)
    assert not any(each.error_code for each in answer.entries), answer


def throttled(name):
    """The service gets less of it than it takes."""

    @contextmanager
    def act(place):
        set_quota(place, name, QUOTAS[name])
        try:
            yield
        finally:
            set_quota(place, name, None)

    return act


@contextmanager
def expired_ids(place):
    """Nobody sends anything until Kafka has forgotten the producers."""
    with place.traffic.silent():
        yield


@contextmanager
def forgotten_progress(place):
    """As after a week without the service, which had been stopped."""
    assert place.service.stop() == 0, place.service.said()
    asked = AdminClient({"bootstrap.servers": place.kafka.bootstrap})
    groups = [each.group_id for each in asked.list_consumer_groups().result(SECONDS_MAX).valid]
    mine = [each for each in groups if each.startswith(f"{place.config.parent.name}.")]
    for future in asked.delete_consumer_groups(mine).values():
        future.result(SECONDS_MAX)
    place.start()
    yield


def set_transaction_version(place, level, direction):
    """Which protocol of transactions the cluster takes, as in a rolling upgrade."""
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=direction
    )
    request = partial(
        UpdateFeaturesRequest, timeout_ms=10_000, feature_updates=[update], min_version=1
    )
    with opened({"bootstrap.servers": place.kafka.bootstrap}) as brokers:
        brokers.ask(request, lambda answer: [answer.error_code], seconds=SECONDS_MAX)


@contextmanager
def older_transactions(place):
    """The cluster goes back to the first protocol of transactions, and is upgraded afterwards."""
    set_transaction_version(place, 0, DOWN)
    try:
        yield
    finally:
        set_transaction_version(place, 2, UP)


FAULTS = (
    *(Fault(f"quota of {name}", throttled(name), seconds=SECONDS) for name in QUOTAS),
    Fault("transactional ids expire", expired_ids, seconds=FORGETS_SECONDS, properties=FORGETFUL),
    Fault("progress expires after a stop", forgotten_progress),
    Fault("transaction.version 0, then 2", older_transactions, seconds=SECONDS),
)
