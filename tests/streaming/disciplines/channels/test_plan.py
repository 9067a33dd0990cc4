"""What batches of channels decide by: kept as JSON, and put back for a repeated batch."""

import json
from dataclasses import replace

from sequencer.channels import WAIT, Fail, Full, Rules, Skip
from sequencer.channels.delays import Quantile
from sequencer.labels import LinearLabels
from tests.streaming.disciplines.channels.plans import plan

OWN = Rules(LinearLabels(), gap=Fail(9), held_max=3, full=Full.SKIP)


def test_a_repeated_batch_has_the_rules_that_it_began_with():
    vip = replace(
        OWN, gap=Skip(5, Quantile(0.9, 1, 5)), window=7, drop_duplicates=True, retire_after_ms=11
    )
    before = plan(replace(OWN, others=(("vip.*", vip), ("?", replace(OWN, gap=WAIT)))))
    kept = json.loads(json.dumps(before.decisions()))
    for now in (plan(OWN), plan(replace(OWN, others=(("x", OWN),)))):
        assert now.under(kept).rules.others == before.rules.others
        assert json.loads(json.dumps(now.under(kept).decisions())) == kept


def test_no_rule_fails_a_batch_that_is_repeated():
    rules = replace(OWN, others=(("a", OWN), ("b", replace(OWN, gap=Skip(5))))).for_repeat
    assert [each.gap for each in rules.each] == [WAIT, WAIT, Skip(5)]
