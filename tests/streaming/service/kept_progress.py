"""A Kafka that keeps the progress of partitions, for starts on checkpoints of any age."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

from streaming.errors import KafkaUnavailable
from streaming.service import histories, standing
from streaming.service.checkpoint import Checkpoint
from streaming.service.decisions import Decisions

RULES = {"gap": "wait"}
LOGS = {
    "metadata": '{"id": "q"}',
    "offsets/0": 'v1\n{}\n{"in":{"0":1}}',
    "offsets/1": 'v1\n{}\n{"in":{"0":2}}',
    "commits/0": "v1\n{}",
}


def checkpoint_in(folder, logs=LOGS):
    """The checkpoint of pipeline p with these logs of Spark's."""
    for name, text in logs.items():
        path = Path(folder, "p", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Checkpoint(str(folder), "p")


class Producer:
    """Keeps the progress of a partition in a dictionary; Kafka is ``away`` for some of them.

    ``older``: what a coordinator tells that was deposed, and does not know. ``late``: what a worker
    of before commits until it is fenced.
    """

    late: dict[int, tuple[int, str]] = {}  # noqa: RUF012  (of all of them)

    def __init__(self, kept, partition, away, older=None):
        self.kept, self.partition, self.away = kept, partition, away
        self.older = kept if older is None else older

    def errors(self, _what):
        return nullcontext()

    def progress_left(self):
        return self.older.get(self.partition, (-1, ""))

    def newest_progress(self):
        return self.kept.get(self.partition, (-1, ""))

    progress = newest_progress

    def begin_session(self):
        self.kept |= self.late
        self.late.clear()

    def send_progress(self, batch, text):
        if self.partition in self.away:
            raise KafkaUnavailable("Kafka is away.")
        self.kept[self.partition] = (batch, text)

    def begin(self):
        pass

    finish = close = begin


def with_producers(monkeypatch, kept, away, older=None):
    """Those that take progress back know who is away; to ask for it fences nobody."""
    for module in (histories, standing):
        monkeypatch.setattr(
            module, "make_producer", lambda _plan, n: Producer(kept, n, away, older)
        )
    monkeypatch.setattr(standing, "make_confirming", lambda _plan, n: Producer(kept, n, set()))


def plan_of(state_partitions, pinned=dict):
    return SimpleNamespace(
        delivery="exactly-once",
        state_partitions=state_partitions,
        pipeline="p",
        reads=("in",),
        progress_group="s.p.{}".format,
        pinned=pinned,
    )


def settle(plan, checkpoint, *, accept_repeats=False, **more):
    """`histories.settle`, of which nobody is told."""
    more["accept_repeats"] = accept_repeats
    return histories.settle(plan, checkpoint, lambda *_, **__: None, **more)


def digest_of(checkpoint):
    decisions = Decisions(checkpoint)
    return decisions.digest(1, decisions.standing(1, RULES))
