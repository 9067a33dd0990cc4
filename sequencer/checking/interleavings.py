"""All interleavings of a small trial, or random ones of a large trial.

`explore` walks the graph of states breadth first. Two ways of acting that lead to the same state
are followed up once: a state holds all that the future depends on and all that is judged, so
what is reachable from it, and wrong with it, is the same. With `reduced`, also actions that
commute are tried in one order only (`Trial.enough`): no end of the trial is lost, and an anomaly
in a history is still there at the end, but starvation on the way may be missed. The schedule of
the anomaly found is a shortest one among those tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sequencer.judging.invariants import Anomaly, Fact

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from sequencer.checking.scenarios import Action, Evidence
    from sequencer.checking.trials import Trial

STATES_MAX = 5_000_000
ACTIONS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly and the actions that lead to it."""

    anomaly: Anomaly
    schedule: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{self.anomaly}\n  after: " + "; ".join(map(str, self.schedule))


@dataclass(frozen=True, slots=True)
class Coverage:
    """What an exploration went through: different states, and those where nothing is left to do."""

    states: int
    ends: int


class TooManyStatesError(RuntimeError):
    """The exploration was stopped at its limit; nothing can be concluded. Take a smaller trial."""


def explore(
    trial: Trial,
    judge: Callable[[Evidence, bool], Anomaly | None],
    *,
    reduced: bool = False,
    states_max: int = STATES_MAX,
) -> Finding | Coverage:
    """Try every interleaving; `judge(evidence, ended)` is asked once for each different evidence.

    Also checks that nothing starves: where all that was started before a message ended has
    ended, the message can be dequeued, whatever else is on its way.
    """
    came_by: list[tuple[int, Action | None]] = [(-1, None)]
    numbers = {trial.key(): 0}
    judged: set[tuple[tuple[int, ...], bool]] = set()
    layer = [(0, trial)]
    ends = 0
    while layer:
        following: list[tuple[int, Trial]] = []
        for number, here in layer:
            actions = here.actions()
            ends += not actions
            case = (here.record_key(), not actions)
            anomaly = None if case in judged else judge(here.evidence(), case[1])
            judged.add(case)
            anomaly = anomaly or starvation(here)
            if anomaly:
                return Finding(anomaly, _schedule(came_by, number))
            for action in here.enough(actions) if reduced else actions:
                there = here.fork()
                there.do(action)
                key = there.key()
                if key not in numbers:
                    numbers[key] = len(came_by)
                    following.append((len(came_by), there))
                    came_by.append((number, action))
            if len(came_by) > states_max:
                raise TooManyStatesError(f"more than {states_max} states")
        layer = following
    return Coverage(len(came_by), ends)


def sample(
    trial: Trial, judge: Callable[[Evidence, bool], Anomaly | None], rng: Random
) -> Finding | int:
    """One random interleaving, judged at its end; returns the number of actions.

    The chance of each kind of action is drawn anew now and then, so that runs have stretches in
    which many messages are in flight, and others in which peers keep up.
    """
    done: list[Action] = []
    weights = {"start": 1.0, "step": 1.0, "dequeue": 1.0}
    while actions := trial.actions():
        if len(done) % 10 == 0:
            weights = {kind: rng.choice((0.05, 1.0, 10.0)) for kind in weights}
        (action,) = rng.choices(actions, [weights[action.kind] for action in actions])
        trial.do(action)
        done.append(action)
        if len(done) > ACTIONS_MAX:
            raise TooManyStatesError(f"more than {ACTIONS_MAX} actions in one run")
        anomaly = starvation(trial) if len(done) % 5 == 0 else None
        if anomaly:
            return Finding(anomaly, tuple(done))
    anomaly = judge(trial.evidence(), True)  # noqa: FBT003 -- the position is the protocol of judges
    return Finding(anomaly, tuple(done)) if anomaly else len(done)


def starvation(trial: Trial) -> Anomaly | None:
    """A message that ended waits only for what was started before it ended.

    Looked at where all of that has ended: then every peer dequeues what it can, while all that
    is on its way stands still, and the message must be among it.
    """
    flying = [before for message, before in trial.before.items() if message not in trial.outcomes]
    due = set(trial.outcomes).intersection(*(before.ended for before in flying))
    expected = {
        part: peers for part, peers in trial.evidence().expected().items() if part[0] in due
    }
    if not _missing(expected, trial):
        return None
    drained = trial.fork()
    while ready := [action for action in drained.actions() if action.kind == "dequeue"]:
        drained.do(ready[0])
    missing = _missing(expected, drained)
    if missing:
        (message, node), peer = missing[0]
        place = f"{peer} for {node}" if node else peer
        late = sorted(set(trial.before) - set(trial.outcomes))
        text = f"{message} cannot be dequeued by {place}, though only {late} are on their way"
        return Anomaly("starvation", (Fact(text),))
    return None


def _missing(
    expected: dict[tuple[str, str | None], set[str]], trial: Trial
) -> list[tuple[tuple[str, str | None], str]]:
    got = {peer: set(parts) for peer, parts in trial.evidence().parts().items()}
    return [
        (part, peer)
        for part, peers in expected.items()
        for peer in sorted(peers)
        if part not in got[peer]
    ]


def _schedule(came_by: list[tuple[int, Action | None]], number: int) -> tuple[Action, ...]:
    actions: list[Action] = []
    while number >= 0:
        number, action = came_by[number]
        actions += [action] if action else []
    return tuple(reversed(actions))
