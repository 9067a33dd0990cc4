"""A producer that labels what it sends, and sends it again when it is asked for."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from sequencer.channels.rules import WINDOW_MAX
from sequencer.labels import LinearLabels
from sequencer.proxy import LabelProxy
from streaming.arrow.key_text import key_to_json
from streaming.clients.asked import Listener
from streaming.clients.configured import producer_of, require_usable
from streaming.clients.deliveries import Header, to_bytes
from streaming.clients.keeping import Kept, Sent, number_ahead, numbers_of
from streaming.clients.refusals import Alone, is_refusal
from streaming.clients.sending import NOT_SENT, SECONDS_MAX, Sender
from streaming.errors import SequencerError

CHANNELS_MAX = 1_000_000
AGAIN = (
    "They are missing there. When asked for, they are sent again, except what is refused for good.",
    "Go on sending. To begin a new epoch instead, make a new LabelledProducer.",
)


class LabelledProducer(Sender):
    """Labels its messages: a label proxy for each channel, over confluent-kafka's producer.

    ``kafka`` are librdkafka's properties (``bootstrap.servers`` at least). Labels begin anew with
    each instance, under ``epoch``: by default the time (ms) at which it was made, so that a sender
    that starts again takes over from its former life. Epoch 0 writes no epoch header. One instance
    is the sender of its channels: two at once on one channel would use the same labels.

    ``keep``: how many messages of each channel are kept (256 MiB in all at most; then the oldest
    go). A thread of its own then reads what the pipeline asks for, from the topic ``wanted``, until
    :meth:`close`: kept messages are sent again as they were; of labels that it never sent it says
    so on the topic ``commands``: of those that `send` left out, and of those from its next one on,
    which it then leaves out (not in a channel with labels of your own, nor where the sequence is
    cyclic or custom). By default these are `trades.wanted` and
    `trades.commands` of the topic `trades.in`. ``resent`` and ``not_coming`` count labels.

    ``label_header`` is the header that the pipeline reads labels from. :meth:`of` takes it, and all
    else, from the service's configuration file.

    Where a signal's handler raises within :meth:`send` (Ctrl-C, once), the message was sent or not:
    the next one of its channel has the label behind it, or its label.

    Raises SequencerError for more than 1,000,000 channels, KafkaUnavailable where a message was not
    taken: its label is then missing, and the channel waits for it, so make a new instance (a new
    epoch) and send again; with ``keep`` it is sent again when it is asked for.

    Call it from one thread. With ``keep``, that thread, librdkafka's answers and the listener share
    ``_kept``, ``_following`` and ``_own``, under ``_lock``. A number is taken (``_following`` is
    beyond it) before its message goes out, so that the listener never promises it away.
    """

    lost = (
        "Their labels are missing; the service holds what follows them.",
        "Make a new LabelledProducer (it begins a new epoch) and send again.",
    )

    def __init__(
        self,
        kafka: dict[str, Any],
        topic: str,
        *,
        labels: Any = None,
        epoch: int | None = None,
        keep: int = 0,
        wanted: str | None = None,
        commands: str | None = None,
        label_header: str = "label",
    ) -> None:
        self._labels = labels or LinearLabels()
        require_usable(self._labels, keep, epoch)
        super().__init__(kafka, topic)
        self._label_header = label_header
        self.epoch = int(time.time() * 1000) if epoch is None else epoch
        self.resent = self.not_coming = 0
        self._is_closed = False
        self._proxies: dict[bytes, LabelProxy[Any, dict[str, Any]]] = {}
        self._following: dict[bytes, int] = {}
        self._own: set[bytes] = set()
        self._lock = threading.Lock()
        self._kept = Kept(keep) if keep else None
        self._kafka = kafka
        self._alone: Alone | None = None
        name = topic.removesuffix(".in")
        self._commands = commands or f"{name}.commands"
        self._listener = Listener(kafka, wanted or f"{name}.wanted", self._answer) if keep else None
        if keep:
            self.lost = AGAIN

    @classmethod
    def of(
        cls,
        file: str | Path,
        pipeline: str,
        *,
        topic: str | None = None,
        labels: Any = None,
        **more: Any,
    ) -> Self:
        """Make the producer for a pipeline of a configuration file: its Kafka, topics and labels.

        ``topic``: one of its inputs, where it has several. ConfigError where ``labels`` are another
        sequence than the pipeline's, with the first label that differs. ``more``: ``epoch``,
        ``keep``.
        """
        kafka, into, settings = producer_of(file, pipeline, topic, labels)
        return cls(kafka, into, **settings, **more)

    def send(
        self,
        channel: bytes | str,
        value: bytes | str | None,
        headers: Sequence[Header] = (),
        *,
        timestamp: int | None = None,
        fin: bool = False,
        label: int | str | None = None,
    ) -> Any:
        """Send a channel's next message; return its label. ``timestamp`` in ms; ``fin``: the last.

        ``label``: one of your own (the number of an outbox) in place of the next. They ascend: what
        lies between two of them never will be sent (numbers that were rolled back). What is below
        the first one, a former life of the sender may have sent.
        """
        self._raise_failures(NOT_SENT)
        if self._is_closed:
            raise SequencerError(
                "This producer is closed.", "The message was not sent.", "Make a new one."
            )
        if self._listener is not None:
            self._listener.take_failure()
        key = to_bytes(channel)
        proxy = self._proxies.get(key)
        if proxy is None:
            if len(self._proxies) >= CHANNELS_MAX:
                raise SequencerError(
                    f"This producer has labelled {CHANNELS_MAX:,} channels.",
                    "The message was not sent.",
                    "Spread the channels over several producers.",
                )
            proxy = self._proxies[key] = LabelProxy(self._send, self._labels)
        message: dict[str, Any] = {"value": value, "headers": headers, "timestamp": timestamp}
        message |= {"key": key, "fin": fin, "taken": []}
        was = used = proxy.label
        try:
            with self._lock:
                before = self._following.get(key)
                number = (before or 0) if label is None else self._number(key, label)
                used = self._label_of(proxy, number) if label is None else label
                message |= {"number": number, "before": before}
                self._following[key] = number + 1
                if label is not None:
                    self._own.add(key)
            proxy.label = used
            proxy(message)
        except BaseException:
            if message["taken"]:  # an interrupt (Ctrl-C) came behind it
                proxy.label = used
                proxy(message)  # which keeps it, and moves on
            else:
                proxy.label = was
                self._untake(message)
            raise
        return used

    def flush(self, limit_s: float = SECONDS_MAX) -> None:
        """Wait until Kafka has everything, or raise KafkaUnavailable."""
        super().flush(limit_s)
        if self._listener is not None:
            self._listener.take_failure()

    def close(self) -> None:
        """Stop answering requests for missing messages, and flush; :meth:`send` is over."""
        self._is_closed = True
        if self._listener is not None:
            self._listener.close()
            self.lost = LabelledProducer.lost
        self.flush()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _label_of(self, proxy: LabelProxy[Any, dict[str, Any]], number: int) -> Any:
        """The label of the next number: the proxy's, or one beyond those that were given away."""
        ended = proxy.label is None
        return self._labels.at(number) if self._gives_away and not ended else proxy.label

    @property
    def _gives_away(self) -> bool:
        """Whether it may say of labels from its next one on that they never come.

        In a cycle such a request may be an old one, about a label of the cycle before; of a custom
        sequence a label that far ahead is not known.
        """
        labels = self._labels
        return self._kept is not None and labels.cycle is None and not labels.searched

    def _untake(self, message: dict[str, Any]) -> None:
        """Give a number back that was not sent, unless the listener went beyond it."""
        if "number" not in message:
            return
        key, number, before = (message[name] for name in ("key", "number", "before"))
        with self._lock:
            if self._following.get(key, 0) > number + 1:
                assert self._kept is not None  # noqa: S101  (only then somebody listens)
                self._kept.skip(key, number if before is None else before, number + 1)
            elif before is None:
                self._following.pop(key, None)
            else:
                self._following[key] = before

    def _number(self, key: bytes, label: int | str) -> int:
        """The number of a label that was given."""
        number = number_ahead(self._labels, label, self._following.get(key))
        if number is None:
            raise SequencerError(
                f"{label!r} is not a label that can be next in its channel.",
                "The message was not sent.",
                "Labels of a channel ascend, and are of the producer's sequence; to begin anew, "
                "make a new LabelledProducer.",
            )
        return number

    def _send(self, labelled: tuple[Any, dict[str, Any]]) -> None:
        label, message = labelled
        if not message["taken"]:
            self._give(label, message)
        if self._kept is not None:
            number, key, before = message["number"], message["key"], message["before"]
            with self._lock:
                if before is not None and before < number:
                    self._kept.skip(key, before, number)
                self._kept.keep(message["sent"])

    def _give(self, label: Any, message: dict[str, Any]) -> None:
        """Give a message to librdkafka; ``message`` gets what is kept of it (`sent`)."""
        taken, key = message["taken"], message["key"]
        headers = [*message["headers"], (self._label_header, str(label).encode())]
        if self.epoch:
            headers.append(("epoch", b"%d" % self.epoch))
        if message["fin"]:
            headers.append(("fin", b""))
        value, timestamp = message["value"], message["timestamp"]
        unused = f"The label {label} was not used; the next message of the channel has it."
        if self._kept is None:
            self._produce(key, value, headers, timestamp, unused, taken=taken)
        else:
            timestamp = int(time.time() * 1000) if timestamp is None else timestamp
            value = None if value is None else to_bytes(value)
            sent = message["sent"] = Sent(key, message["number"], value, headers, timestamp)
            note = partial(self._note_sent, sent)
            self._produce(key, value, headers, timestamp, unused, on_delivery=note, taken=taken)

    def _note_sent(self, sent: Sent, error: Any, message: Any) -> None:
        """Note Kafka's answer to a message, or to its copy."""
        self._note(error, message)
        self._note_copy(sent, error, message)

    def _note_copy(self, sent: Sent, error: Any, _message: Any) -> None:
        sent.in_flight = False
        sent.is_doubtful = sent.is_doubtful or is_refusal(error)

    def _note_alone(self, sent: Sent, error: Any, _message: Any) -> None:
        sent.in_flight = False
        if is_refusal(error):
            with self._lock:
                assert self._kept is not None  # noqa: S101  (only kept messages come here)
                self._kept.drop(sent)

    def _answer(self, channel: bytes, epoch: int, first: Any, stop: Any) -> None:
        """Send again what is asked for and kept; say what never will be sent.

        What is asked for from the next label on is never sent from now on. Nothing about other
        producers' channels and epochs, nor about what was sent and is no longer kept: it may still
        come.
        """
        kept = self._kept
        if kept is None or epoch != self.epoch:
            return
        self._producer.poll(0)  # Kafka's answers, which nobody takes while the sender rests
        with self._lock:
            following = self._following.get(channel)
            numbers = numbers_of(self._labels, first, stop, following) if following else None
            if following is None or numbers is None:
                return
            begin, end = numbers
            ahead = following < end <= following + WINDOW_MAX
            if ahead and self._gives_away and channel not in self._own:
                begin = min(begin, following)
                kept.skip(channel, following, end)
                self._following[channel] = end
            again = list(kept.sent(channel, begin, end))
        for sent in again:
            self._send_again(sent)
        with self._lock:
            unsent = kept.unsent(channel, begin, end)
        for range_ in unsent:
            self._say(channel, *range_)

    def _send_again(self, sent: Sent) -> None:
        """Send a copy: in a record batch of its own where Kafka refused the one it was in."""
        sent.in_flight = True
        try:
            if sent.is_doubtful:
                self._alone = self._alone or Alone(self._kafka, self._topic)
                self._alone.send(sent, partial(self._note_alone, sent))
            else:
                note = partial(self._note_copy, sent)
                copy = (sent.channel, sent.value, sent.headers, sent.timestamp)
                self._produce(*copy, on_delivery=note)
        except SequencerError:
            sent.in_flight = False
            raise
        self.resent += 1

    def _say(self, channel: bytes, first: int, stop: int) -> None:
        """Say of numbers that they never will be sent."""
        ends = {"from": self._labels.at(first), "to": self._labels.at(stop)}
        said = {"channel": key_to_json(channel), "epoch": self.epoch, **ends, "not_coming": True}
        self._produce(
            channel,
            json.dumps(said).encode(),
            [],
            None,
            topic=self._commands,
            on_delivery=lambda _error, _message: None,
        )
        self.not_coming += stop - first
