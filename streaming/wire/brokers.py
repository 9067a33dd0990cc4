"""Requests to Kafka's brokers, one by one, over kafka-python's connections and messages.

The service's requests go through here, to any broker, a coordinator, or the leaders of partitions:
Kafka's clients accept records, but not finished batches. The caller drives the network loop;
nothing happens between calls.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kafka.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    RetriableError,
    UnknownBrokerIdError,
    UnstableOffsetCommitError,
    for_code,
)
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from streaming.wire.connections import Connections, Selector
from streaming.wire.topology import Topology

CLOSING_TURNS = 3
"""Turns of the network loop in which background threads wake and end."""
SECONDS_MAX = 60.0
"""How long a request is repeated after retriable errors before it fails."""

RETRY_SECONDS = 0.02
"""A commit's markers take a few ms; until they are written the next transaction cannot begin."""

LOOK_AGAIN_SECONDS = 0.1
TIMEOUT_MS_MIN = 1_000
"""The least timeout of a request, however little is left."""
CONNECTIONS = {
    "receive_message_max_bytes": 100_000_000,
    "reconnect_backoff_max_ms": 1_000,
    "max_in_flight_requests_per_connection": 100,
}
TRANSACTION, GROUP = CoordinatorType.TRANSACTION, CoordinatorType.GROUP
NOT_SENT = (NodeNotReadyError, UnknownBrokerIdError)
"""Errors of a request that was never sent."""
STAYS = (ConcurrentTransactionsError, CoordinatorLoadInProgressError, UnstableOffsetCommitError)
"""Errors after which the coordinator need not be looked up again."""


Coordinator = tuple[CoordinatorType, str]
Codes = Callable[[Any], Iterable[int | KafkaError]]


class Brokers:
    """The brokers of one cluster. ``settings`` are kafka-python's (see `kafka.connection`).

    ``unanswered``: how many requests of :meth:`ask` got no answer; each may still take effect.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what matters is raised
        self.settings = {**CONNECTIONS, **settings}
        self.topology = Topology()
        self.leaders = self.topology.leaders
        self.coordinators: dict[Coordinator, int] = {}
        self.unanswered = 0
        self._open()

    @property
    def request_ms(self) -> int:
        """Return the timeout of an answer."""
        return int(self.manager.config["request_timeout_ms"])

    def connect(self, seconds: float = SECONDS_MAX) -> None:
        """Find the brokers; KafkaError if none answers in time, or one refuses us."""
        if self.manager.bootstrapped:
            return
        try:
            self.manager.bootstrap(seconds * 1000)
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(*(self.manager.last_error or error).args) from error

    def reset(self) -> None:
        """Begin anew at the next request: with listed addresses, then brokers known before."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close the connections for good, in the thread that drives them."""
        self.manager.close()
        for _ in range(CLOSING_TURNS):
            with contextlib.suppress(Exception):
                self.turn(0)
        self.network.close()

    def _open(self) -> None:
        self.network = Selector(**self.settings)
        self.manager = Connections(self.network, **self.settings)
        self.topology.clear()
        self.coordinators.clear()

    def send(self, request: Any, node: int) -> Any:
        """Begin a request and return its future, which :meth:`turn` makes progress on.

        Raises KafkaError if it cannot begin; a retriable one if the broker is gone.
        """
        try:
            return self.manager.send(request, node)
        except UnknownBrokerIdError as error:
            raise LeaderNotAvailableError(*error.args) from error

    def turn(self, seconds: float) -> None:
        """Run the network loop for at most this long."""
        self.network.poll(timeout_ms=seconds * 1000)

    def ask(
        self,
        request: Callable[[], Any],
        codes: Codes,
        coordinator: Coordinator | None = None,
        *,
        node: int | None = None,
        seconds: float = SECONDS_MAX,
    ) -> Any:
        """Return the answer of a coordinator, a ``node``, or any broker to a request.

        ``codes`` returns an answer's errors. After a retriable one (a coordinator moves, a
        connection breaks) it asks again; KafkaError after ``seconds``, or if it is not retriable.
        """
        self.connect(seconds)
        deadline = time.monotonic() + seconds
        return self.manager.run(self._ask, request, codes, coordinator, node, deadline)

    def find_leaders(self, topics: Sequence[str], *, of_most: bool = False) -> None:
        """Ask for the leaders of these topics' partitions, once.

        ``of_most``: ask all brokers; KafkaError unless most of them answer. One that is cut off
        from the others names leaders of before.
        """
        self.connect()
        self.manager.run(self._find_leaders, topics, of_most)

    async def _ask(
        self,
        request: Callable[[], Any],
        codes: Codes,
        coordinator: Coordinator | None,
        node: int | None,
        deadline: float,
    ) -> Any:
        while True:
            error: KafkaError
            try:
                to = node
                if coordinator is not None:
                    to = await self._coordinator(coordinator, self._timeout_ms(deadline))
                answer = await self._answer(request(), to, self._timeout_ms(deadline))
                error_code = first_error(codes(answer))
                if error_code is None:
                    return answer
                error = error_code
            except (RetriableError, UnknownBrokerIdError) as failure:
                error = KafkaTimeoutError(*failure.args) if not failure.retriable else failure
            if not error.retriable or time.monotonic() > deadline:
                raise error
            if coordinator is not None and not isinstance(error, STAYS):
                self.coordinators.pop(coordinator, None)
            await self.network.sleep(RETRY_SECONDS)

    def _timeout_ms(self, deadline: float) -> float:
        """How long one request may take of what is left until then."""
        left_ms = (deadline - time.monotonic()) * 1000
        return min(self.request_ms, max(left_ms, TIMEOUT_MS_MIN))

    async def _answer(self, request: Any, node: int | None, timeout_ms: float) -> Any:
        try:
            return await self.manager.send(request, node, request_timeout_ms=timeout_ms)
        except NOT_SENT:
            raise
        except KafkaError:
            self.unanswered += 1
            raise

    async def _coordinator(self, coordinator: Coordinator, timeout_ms: float) -> int:
        if coordinator not in self.coordinators:
            kind, key = coordinator
            request = FindCoordinatorRequest(key=key, key_type=kind.value, max_version=3)
            answer = await self.manager.send(request, request_timeout_ms=timeout_ms)
            error = first_error([answer.error_code])
            if error is not None:
                raise error
            self.coordinators[coordinator] = self.manager.cluster.add_coordinator(
                answer, kind, key, synthesize_node_id=False
            )
        return self.coordinators[coordinator]

    async def _find_leaders(self, topics: Sequence[str], of_most: bool) -> None:
        answers = [await self.manager.send(_leaders(topics))]
        nodes = [each.node_id for each in answers[0].brokers]
        self._take_leaders(answers.pop())
        if not of_most:
            return
        for answer in [self.manager.send(_leaders(topics), node) for node in nodes]:
            with contextlib.suppress(KafkaError):
                answers.append(await answer)
        for each in answers:
            self._take_leaders(each)
        if len(answers) * 2 <= len(nodes):
            raise LeaderNotAvailableError(f"{len(answers)} of {len(nodes)} brokers answer")

    def _take_leaders(self, answer: Any) -> None:
        found, answer.topics = answer.topics, []  # kafka-python keeps books of its own, slowly
        self.manager.cluster.update_metadata(answer)
        self.topology.update(found)
        for topic in found:
            error = for_code(topic.error_code)
            if topic.error_code and not error.retriable:
                raise error(topic.name)


def _leaders(topics: Sequence[str]) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        max_version=12,
    )


def first_error(codes: Iterable[int | KafkaError]) -> KafkaError | None:
    """Return the first error among an answer's codes and errors, None if there is none."""
    found = next((each for each in codes if each), None)
    return for_code(found)() if isinstance(found, int) else found
