"""What the service may do in Kafka, and what it needs to: asked before it begins.

Kafka tells each client the operations that it is authorized to on topics (KIP-430), without doing
any of them. Of consumer groups that are not there yet, and of transactional ids, it tells nothing:
these are tried under a name that nobody uses, with the prefix that the service's have. What Kafka
does not tell (an older broker, or one that is no Apache Kafka; one that is just starting) is let
pass: a refusal then comes with the work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from streaming.config import Config
from streaming.errors import ConfigError, KafkaRefused
from streaming.kafka import connection

SECONDS_MAX = 10
AT_ONCE_MAX = 8
BY_ROLE = {
    "input": ("Read",),
    "commands": ("Read",),
    "output": ("Write",),
    "rejects": ("Write",),
    "events": ("Write", "Read"),
    "transit": ("Write", "Read", "Delete"),
}
"""Operations of the service on topics of each role; each of them implies Describe.

Progress is a committed offset on the events topic, which takes Read; what nobody can ask for again
is deleted from the transit topic.
"""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One operation on one resource, in the words of `kafka-acls`."""

    operation: str
    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource} {self.name}"


def require(config: Config, names: Iterable[str]) -> None:
    """KafkaRefused that names what this user may not do, of what these pipelines need."""
    lacking = missing(config, names)
    if lacking:
        raise KafkaRefused(
            f"This user lacks rights in Kafka: {', '.join(map(str, lacking))}.",
            "Nothing was started.",
            "Have them granted (kafka-acls --add --allow-principal …; docs/operations.md has all "
            "that are needed), or look whether the names are right.",
        )


def missing(config: Config, names: Iterable[str]) -> list[Right]:
    """Rights that these pipelines need and this user has not; topics that are missing left out."""
    chosen = list(names)
    exactly_once = config.service.delivery == "exactly-once"
    admin = connection.admin(config)  # has to live until the answers are there
    on_topics = list(_on_topics(config, chosen, admin, exactly_once=exactly_once))
    if not exactly_once:  # who repeats keeps no progress in Kafka
        return on_topics
    return [*on_topics, *_on_groups(config, chosen), *_on_ids(config, chosen)]


def _on_topics(
    config: Config, names: list[str], admin: Any, *, exactly_once: bool
) -> Iterator[Right]:
    from confluent_kafka import KafkaError, TopicCollection  # noqa: PLC0415  (a quick --help)

    wanted: dict[str, set[str]] = {}
    for name in names:
        for role, topic in config.pipelines[name].topics():
            operations = BY_ROLE[role] if role != "events" or exactly_once else ("Write",)
            wanted.setdefault(topic, set()).update(operations)
    answers = admin.describe_topics(
        TopicCollection(sorted(wanted)),
        include_authorized_operations=True,
        request_timeout=SECONDS_MAX,
    )
    for topic, answer in answers.items():
        description, error = _outcome(answer)
        if error == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            allowed = set()
        elif description is None or description.authorized_operations is None:
            continue
        else:
            allowed = {each.name.capitalize() for each in description.authorized_operations}
        lacking = wanted[topic] - allowed
        yield from (Right(operation, "Topic", topic) for operation in sorted(lacking))


def _on_groups(config: Config, names: list[str]) -> Iterator[Right]:
    """Whether the groups can be described; to read a group implies that.

    Who asks for a group's coordinator needs that right. librdkafka's admin client is not asked:
    where a coordinator moves or goes away meanwhile, it ends the process.
    """
    from kafka.errors import GroupAuthorizationFailedError, KafkaError  # noqa: PLC0415
    from kafka.protocol.metadata import FindCoordinatorRequest  # noqa: PLC0415

    from streaming.kafka.brokers import GROUP, Brokers  # noqa: PLC0415

    with contextlib.suppress(ConfigError):  # kafka-python cannot be told these properties
        brokers = Brokers(connection.kafka_python(config))
        try:
            for prefix in [f"{config.service.name}.{name}" for name in names]:
                group = f"{prefix}.rights"
                request = partial(
                    FindCoordinatorRequest, key=group, key_type=GROUP.value, max_version=3
                )
                answer = brokers.ask(request, lambda _: ())
                if answer.error_code == GroupAuthorizationFailedError.errno:
                    yield Right("Read", "Group", f"{prefix}.*")
        except KafkaError:
            return  # a refusal then comes with the work
        finally:
            brokers.close()


def _on_ids(config: Config, names: list[str]) -> Iterator[Right]:
    """Whether a producer may be begun; all at once, as each waits for a coordinator."""
    from confluent_kafka import KafkaError, KafkaException, Producer  # noqa: PLC0415

    def refused(prefix: str) -> bool:
        settings = connection.confluent(config, **{"transactional.id": f"{prefix}.rights"})
        try:
            Producer(settings, logger=connection.quiet()).init_transactions(SECONDS_MAX)
        except KafkaException as error:
            code = error.args[0].code()
            return bool(code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return False

    prefixes = [f"{config.service.name}.{name}" for name in names]
    with ThreadPoolExecutor(AT_ONCE_MAX) as threads:
        answers = list(threads.map(refused, prefixes))
    for prefix, is_refused in zip(prefixes, answers, strict=True):
        if is_refused:
            yield Right("Write", "TransactionalId", f"{prefix}.*")


def _outcome(answer: Future[Any]) -> tuple[Any, int | None]:
    """What an answer says, and the code of its error; None for what there is not in time."""
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        return answer.result(SECONDS_MAX), None
    except KafkaException as error:
        return None, int(error.args[0].code())
    except TimeoutError:
        return None, None
