"""The naive model: a dictionary of channels and a loop, written from the contract alone.

It keeps every label it ever delivered or gave up, looks at one record at a time and never sorts.
"""

from fnmatch import fnmatchcase

from sequencer.channels import delays as model_delays
from sequencer.channels.delays import Quantile
from tests.sequencer.channels.asking_model import NaiveAsking
from tests.sequencer.channels.commands_model import NaiveCommands


class NaiveChannels(NaiveAsking, NaiveCommands):
    searched = False
    passes = False
    settle = None  # how long the first labels of a channel are waited for
    ruled = ()  # (glob, what differs there)
    pauses = ()  # (time of the batch before, length): no wait counts them
    caught_up = float("inf")  # until when all that had come is read, where something is unread
    behind = 0  # since when something is

    def __init__(self, *, cycle, to_place, window, held_max, full, gap_after, retire_after):
        self.cycle, self.to_place = cycle, to_place
        self.own = dict(
            window=window,
            held_max=held_max,
            full=full,
            gap_after=gap_after,
            retire_after=retire_after,
            drop=False,
            glob=None,
            ask=None,
        )
        self.channels = {}
        self.refused = {}
        self.passed = []
        self.clock = 0
        self.out, self.rejects, self.gaps, self.others = [], [], [], []
        self.lives_of_gaps = []  # the incarnation that each gap is of
        self.born_after = {}  # keys that were reset: what begins anew began then or later
        self.wanted, self.answered = [], 0  # (key, epoch, first, stop, try)
        self.notices, self.told = False, []  # (key, sequence, incarnation, kind, position)
        self.places = {}  # of each reject: the delivery before it, and its label's gap
        self.dropped = []
        self.delays, self.delays_before = [], []  # (rule, ms) of what came, where rules measure

    def after(self, key):
        """The gap time of a channel: by the delays that were known when the batch began."""
        rule = self.rule(key, "gap_after")
        if not isinstance(rule, Quantile):
            return rule
        which = self.rule(key, "glob")
        delays = sorted(ms for glob, ms in self.delays_before if glob == which)
        if len(delays) < model_delays.SAMPLES_MIN:
            return rule.most_ms
        at = next(n for n in range(len(delays)) if n + 1 >= rule.share * len(delays))
        bounds = [int(bound) for bound in model_delays.BOUNDS if bound >= delays[at]]
        return min(max(bounds[0], rule.least_ms), rule.most_ms)

    def paused(self, since):
        return sum(length for at, length in self.pauses if at >= since)

    def waited(self, now, since):
        return now - since - self.paused(since)

    def over(self, now, since, length):
        waited = self.waited(now, since)
        longest = min(waited, max(self.waited(now, self.behind), 0))
        return waited - max(now - self.caught_up, 0) >= length or longest >= 4 * length

    def measure(self, key, since, now):
        if isinstance(self.rule(key, "gap_after"), Quantile):
            self.delays.append((self.rule(key, "glob"), self.waited(now, since)))

    def rule(self, key, name):
        """What the first rule that matches says, or else the pipeline."""
        for glob, differs in self.ruled:
            try:
                if fnmatchcase(key.decode(), glob):
                    return {**self.own, **differs, "glob": glob}[name]
            except UnicodeDecodeError:
                break
        return self.own[name]

    def take(self, now, record):
        now = self.clock = max(self.clock, now)
        row, key, label, epoch, fin = record
        if self.passes and key is not None and label is None:
            self.pass_on(now, row, key)
            return
        reason = self.refuse(now, key, label, epoch)
        if isinstance(reason, str):
            self.reject(row, reason, self.channels.get(key))
            if reason == "duplicate" and self.rule(key, "drop"):
                self.dropped.append(row)
            return
        if reason[0] == "late":
            self.reject(row, "late", self.channels[key], reason[1])
            if len(reason) > 2:  # below the channel's start nobody waited
                self.measure(key, self.channels[key]["lost_since"][reason[2]], now)
            return
        at, number = reason
        c = self.channels.get(key)
        if c is None:
            c = self.channels[key] = self.blank(number, max(now, self.born_after.get(key, 0)))
        elif number > c["epoch"]:
            if c["start"] is None and c["held"]:
                self.begin(key, c, min(c["held"]))
            while c["held"]:
                self.skip(key, c, now, "epoch")
            self.others.append(("epoch", key, number))
            self.tell(key, c, "epoch", 0)
            start = 0 if self.settle is None else None
            c.update(epoch=number, start=start, frontier=0, fin=None, done=set(), lost={})
            c.update(absent=set(), asked={})
        c["active"] = now
        self.measure(key, min([h[1] for p, h in c["held"].items() if p > at], default=now), now)
        c["held"][at] = (row, now, fin)
        if at in c["asked"] and at not in c["absent"]:
            c["answers"].append((c["epoch"], at))
        if fin:
            c["fin"] = at
            c["absent"] = {each for each in c["absent"] if each < at}
            c["answers"] = [each for each in c["answers"] if each[0] < number or each[1] <= at]
            for other in [x for x in c["held"] if x > at]:
                self.reject(c["held"].pop(other)[0], "after-fin", c)
        full = len(c["held"]) > self.rule(key, "held_max") and self.rule(key, "full") == "skip"
        if c["start"] is None and full:
            self.begin(key, c, min(c["held"]))
        elif c["start"] is not None:
            self.flow(key, c)
        while self.rule(key, "full") == "skip" and len(c["held"]) > self.rule(key, "held_max"):
            self.skip(key, c, now, "overflow")

    def pass_on(self, now, row, key):
        c = self.channels.setdefault(key, self.blank(0, max(now, self.born_after.get(key, 0))))
        c["active"] = now
        if row in self.refused:
            self.reject(row, self.refused[row], c)
            return
        self.deliver(key, c, row)
        self.passed.append(row)

    def reject(self, row, why, c, gap=None):
        self.rejects.append((row, why))
        last = (c["born"], c["last"]) if c is not None and c["last"] >= 0 else None
        self.places[row] = (last, gap)

    def deliver(self, key, c, row):
        self.out.append((key, c["n"], row, c["born"]))
        c["last"] = c["n"]
        c["n"] += 1

    def tell(self, key, c, kind, at):
        if self.notices:
            self.told.append((key, c["n"], c["born"], kind, at))
            c["n"] += 1

    def lose(self, key, c, positions, waited, why):
        """Positions from the frontier on are given up together."""
        first, stop = positions[0], positions[-1] + 1
        self.gaps.append((key, c["epoch"], first, stop, waited, why))
        self.lives_of_gaps.append(c["born"])
        if why in ("timeout", "operator", "epoch", "overflow"):
            c["answers"] = [e for e in c["answers"] if e[0] < c["epoch"] or e[1] not in positions]
        for at in positions:
            c["lost"][at] = (key, c["born"], c["epoch"], first)
            c["lost_since"][at] = self.clock - waited
        self.tell(key, c, "gap", first)

    def blank(self, epoch, now):
        return dict(
            epoch=epoch,
            start=0 if self.settle is None else None,
            frontier=0,
            fin=None,
            done=set(),
            lost={},
            lost_since={},
            held={},
            absent=set(),  # what will not come, as somebody said
            asked={},  # by label: how often it was asked for, and when last
            answers=[],  # in this batch: what had been asked for and came, or will not
            n=0,
            last=-1,
            born=now,
            active=now,
        )

    def refuse(self, now, key, label, epoch):
        if key is None:
            return "missing-channel"
        if label is None:
            return "missing-label"
        place = self.to_place(label)
        if place is None:
            return "bad-label"
        number = 0 if epoch is None else self.number(epoch)
        if number is None:
            return "bad-epoch"
        c = self.channels.get(key)
        if c is not None:
            c["active"] = now
            if number < c["epoch"]:
                return "stale-epoch"
            if number > c["epoch"]:
                c = None
        if c is None:
            c = self.blank(0, 0)
        at, window = place, self.rule(key, "window")
        if self.cycle:
            at = next(
                (
                    c["frontier"] + d
                    for d in range(window + 1)
                    if (c["frontier"] + d) % self.cycle == place
                ),
                None,
            )
            if at is None:  # in the past: the nearest such position below the frontier
                at = c["frontier"] - 1
                while at % self.cycle != place:
                    at -= 1
        if c["fin"] is not None and at > c["fin"]:
            return "after-fin"
        if c["start"] is None:
            return self.refuse_unsettled(key, c, at, window) or (at, number)
        if at - c["frontier"] > window:
            return "outside-window"
        if 0 <= at < c["start"]:
            return "late", None
        if at in c["lost"]:
            return "late", c["lost"][at], at
        if at < c["frontier"] or at in c["held"]:
            return "duplicate"
        full = len(c["held"]) >= self.rule(key, "held_max")
        if at != c["frontier"] and full and self.rule(key, "full") == "reject":
            return "buffer-full"
        return at, number

    def refuse_unsettled(self, key, c, at, window):
        """Nothing is known of where the channel begins: no label is in the past."""
        if at - min(c["held"], default=at) > window:
            return "outside-window"
        if at in c["held"]:
            return "duplicate"
        full = len(c["held"]) >= self.rule(key, "held_max")
        return "buffer-full" if full and self.rule(key, "full") == "reject" else None

    def begin(self, key, c, start):
        c["start"] = c["frontier"] = start
        self.others.append(("started", key, c["epoch"], start))
        self.flow(key, c)

    @staticmethod
    def number(text):
        if not (1 <= len(text) <= 19 and all(48 <= byte <= 57 for byte in text)):
            return None
        return int(text) if int(text) < 2**63 else None

    def flow(self, key, c):
        self.flow_held(key, c)
        while c["frontier"] in c["absent"]:
            first = c["frontier"]
            while c["frontier"] in c["absent"] and c["frontier"] not in c["held"]:
                c["frontier"] += 1
            since = min(held[1] for held in c["held"].values())
            self.lose(key, c, range(first, c["frontier"]), self.clock - since, "not-coming")
            self.flow_held(key, c)

    def flow_held(self, key, c):
        while c["frontier"] in c["held"]:
            row, since, fin = c["held"].pop(c["frontier"])
            if row in self.refused:
                why, at = self.refused[row], c["frontier"]
                self.reject(row, why, c, (key, c["born"], c["epoch"], at))
                self.lose(key, c, [at], self.clock - since, why)
            else:
                self.deliver(key, c, row)
                c["done"].add(c["frontier"])
            if fin:
                self.others.append(("fin", key, c["frontier"]))
                self.tell(key, c, "fin", c["frontier"])
            c["frontier"] += 1

    def skip(self, key, c, now, why):
        since = min(held[1] for held in c["held"].values())
        first = c["frontier"]
        while c["frontier"] not in c["held"]:
            c["frontier"] += 1
        self.lose(key, c, range(first, c["frontier"]), now - since, why)
        self.flow(key, c)

    def end_of_batch(self, now):
        now = self.clock = max(self.clock, now)
        for key in list(self.channels):
            c = self.channels[key]
            after = self.after(key)
            if c["start"] is None and c["held"]:
                if not self.over(now, min(h[1] for h in c["held"].values()), self.settle):
                    c["answers"] = []
                    continue
                self.begin(key, c, min(c["held"]))
            while (
                after is not None
                and c["held"]
                and self.over(now, min(held[1] for held in c["held"].values()), after)
            ):
                self.skip(key, c, now, "timeout")
            self.ask(now, key, c)
            c["answers"] = []
            if not c["held"] and self.over(now, c["active"], self.rule(key, "retire_after")):
                self.others.append(("retired", key, c["n"]))
                del self.channels[key]
        self.clock = max(self.clock, *self.born_after.values(), 0)
        self.delays_before = [*self.delays]

    def held_rows(self):
        return sorted(h[0] for c in self.channels.values() for h in c["held"].values())
