"""What counts as grown, of a service that was at work for long."""

from tests.chaos.endurance import MEASURES, SETTLED_SECONDS, ends, grown


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
    samples = seen([1_000.0 + 100 * n for n in range(90)])
    rounds = ends(samples, [SETTLED_SECONDS + 60.0 * n for n in range(14)])
    assert {each.split()[0] for each in grown(rounds)} == {each.name for each in MEASURES}
    one = [
        {**each, "threads": 50.0 + n} for n, each in enumerate(ends(seen([1.0] * 99), [500.0] * 60))
    ]
    assert grown(one) == ["threads grew from 60 to 100"]
