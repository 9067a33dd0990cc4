"""The naive model's part that asks for what is missing: label by label, from the contract alone."""


class NaiveAsking:
    def not_coming(self, key, epoch, first, stop):
        """Labels of an epoch that will not come, first up to stop: as :meth:`command`."""
        c = self.channels.get(key)
        places = [None if label is None else self.to_place(label) for label in (first, stop)]
        if None in places:
            return 0, 0, "bad-label"
        if c is None:
            return 0, 0, None
        if epoch != c["epoch"]:
            return 0, 0, "other-epoch"
        if c["start"] is None:
            return 0, 0, None
        here = range(c["frontier"], max(c["held"], default=0))
        if self.cycle:
            window = self.rule(key, "window")
            for n, place in enumerate(places):
                ahead = (place - c["frontier"]) % self.cycle
                past = ahead > window
                places[n] = c["frontier"] + ahead - (self.cycle if past else 0)
        gone = [at for at in here if places[0] <= at < places[1]]
        gone = [at for at in gone if at not in c["held"] and at not in c["absent"]]
        if gone:
            c["active"] = self.clock
            c["absent"] |= {*gone}
            c["answers"] += [(epoch, at) for at in gone if at in c["asked"]]
            self.flow(key, c)
        return int(bool(gone)), len(gone), None

    def ask(self, now, key, c):
        """Ask for what has been missing for long enough."""
        every = self.rule(key, "ask")
        if every is None:
            c["asked"] = {}
            return
        self.answered += len(c["answers"])
        if c["start"] is None or not c["held"]:
            return
        gone = [p for p in range(c["frontier"], max(c["held"])) if p not in c["held"]]
        gone = [p for p in gone if p not in c["absent"]]
        runs = []
        for p in gone:
            if runs and runs[-1][-1] == p - 1:
                runs[-1].append(p)
            else:
                runs.append([p])
        asked, places = {}, 64
        for run in runs:
            since = min(held[1] for p, held in c["held"].items() if p > run[0])
            times, at = c["asked"].get(run[0], (0, 0))
            since, last = since + self.paused(since), at + self.paused(at)
            due = since + every if times == 0 else last + every * 2 ** (times - 1)
            places -= times < 8
            if times < 8 and now >= due and places >= 0:
                times, at = times + 1, now
                self.wanted.append((key, c["epoch"], run[0], run[-1] + 1, times))
            if times:
                asked |= dict.fromkeys(run, (times, at))
        c["asked"] = asked
