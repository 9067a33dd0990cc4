"""The naive model's part that operators command: skip, seed, reset, from the contract alone."""


class NaiveCommands:
    def command(self, now, op, key, *, label=None, blocked=None, dry=False, first=None, epoch=0):
        """What was done: (channels, labels given up, why it was refused)."""
        now = self.clock = max(self.clock, now)
        if op == "not-coming":
            return self.not_coming(key, epoch, first, label)
        if key is not None:
            found = self.command_one(op, key, label, dry)
            self.clock = max(self.clock, *self.born_after.values(), 0)
            return found
        known = label is None or self.searched or self.to_place(label) is not None
        if op != "reset" and not known:
            return 0, 0, "bad-label"
        late = [
            each
            for each, c in self.channels.items()
            if any(now - held[1] >= blocked for held in c["held"].values())
        ]
        found = [self.command_one(op, each, label, dry) for each in late]
        self.clock = max(self.clock, *self.born_after.values(), 0)
        return sum(f[0] for f in found), sum(f[1] for f in found), None

    def command_one(self, op, key, label, dry):
        c = self.channels.get(key)
        if op == "reset":
            if c is None:
                return 0, 0, None
            if not dry:
                self.born_after[key] = c["born"] + 1
                for held in c["held"].values():
                    self.reject(held[0], "reset", c)
                lowest = min(c["held"], default=c["frontier"])
                self.tell(key, c, "reset", lowest if c["start"] is None else c["frontier"])
                del self.channels[key]
            return 1, 0, None
        place = None if label is None else self.to_place(label)
        if label is not None and place is None:
            return 0, 0, "bad-label"
        if c is None and op == "skip":
            return 0, 0, None
        new = c is None
        if new:
            c = self.blank(0, max(self.clock, self.born_after.get(key, 0)))
        stop, lowest = place, min(c["held"], default=c["frontier"])
        settles = c["start"] is None and bool(c["held"] or op == "seed")
        if place is None:
            stop = lowest
        elif self.cycle and not new:
            ahead = [c["frontier"] + d for d in range(self.rule(key, "window") + 1)]
            stop = next((p for p in ahead if p % self.cycle == place), -1)
        if op == "seed":
            if stop <= c["frontier"] and not settles:
                return 0, 0, "not-ahead"
            if c["fin"] is not None and stop > c["fin"]:
                return 0, 0, "after-fin"
        elif c["fin"] is not None:
            stop = min(stop, c["fin"] + 1)
        if settles:
            stop = max(stop, lowest) if op == "skip" else stop
            first = min([*c["held"], stop])
        elif c["start"] is None or stop <= c["frontier"]:
            return 0, 0, None
        else:
            first = c["frontier"]
        missing = [p for p in range(first, stop) if p not in c["held"]]
        if not dry:
            self.channels[key] = c
            c["active"] = self.clock
            if settles:
                self.begin(key, c, first)
            self.pass_by(key, c, stop)
        return 1, len(missing), None

    def pass_by(self, key, c, stop):
        c["absent"] = {at for at in c["absent"] if at >= stop}
        while c["frontier"] < stop:
            since = min((held[1] for held in c["held"].values()), default=self.clock)
            first = c["frontier"]
            while c["frontier"] < stop and c["frontier"] not in c["held"]:
                c["frontier"] += 1
            lost = range(first, c["frontier"])
            self.lose(key, c, lost, self.clock - since, "operator")
            self.flow(key, c)
