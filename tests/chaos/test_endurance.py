"""What counts as grown, of a service that was at work for long."""

from tests.chaos.endurance import ENDING, MEASURES, SETTLED_SECONDS, chosen, ends, grown


def seen(values):
    """The same number for everything, a look each ten seconds."""
    return [
        {"seconds": 10.0 * number, **dict.fromkeys((each.name for each in MEASURES), value)}
        for number, value in enumerate(values)
    ]


def test_what_is_flat_has_not_grown_whatever_a_fault_does_for_a_moment():
    values = [1_000.0, 90_000.0, 1_010.0, 1_000.0, 0.0, 1_000.0] * 9
    samples = seen(values)
    rounds = ends(samples, [each["seconds"] for each in samples if each["memory"] == 1_010.0])
    assert len(rounds) == 9
    assert not grown(rounds)


def test_what_leaks_is_named():
    samples = seen([1_000.0 + 100 * n for n in range(240)])
    rounds = ends(samples, [SETTLED_SECONDS + 60.0 * n for n in range(39)])
    assert {each.split()[0] for each in grown(rounds)} == {each.name for each in MEASURES}
    one = [
        {**each, "threads": 50.0 + n} for n, each in enumerate(ends(seen([1.0] * 99), [500.0] * 90))
    ]
    assert grown(one) == ["threads grew from 94 to 124"]


def test_files_that_spark_keeps_for_a_while_are_no_leak_in_a_short_run():
    filling = [min(1_000.0 * n, 10_000.0) for n in range(240)]
    rounds = ends(seen(filling), [SETTLED_SECONDS + 60.0 * n for n in range(39)])
    assert not grown(rounds)
    told = {each.split()[0] for each in grown(rounds[:2])}
    assert told == {each.name for each in MEASURES if not each.fills}


def test_each_minute_has_a_fault_and_those_that_end_the_service_come_first():
    names = [fault.name for fault in chosen(60, 1)]
    assert len(names) == 60
    assert [name in ENDING for name in names] == [True] * 10 + [False] * 50
