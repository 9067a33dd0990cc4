"""Every wrong place that a reject names is found by its name."""

from dataclasses import replace

import pytest

from sequencer.labels import LinearLabels
from streaming.verify.channel import judge
from tests.streaming.verify.channel_stories import story


def place_header(m, name, change, reason=None):
    """The header of some reject, the last with that reason, is changed; None leaves it out."""

    def fits(r):
        return r.has_header(name) and reason in (None, r.header("reject-reason"))

    at = max(i for i, r in enumerate(m.rejects) if fits(r))
    headers = [(n, change(v) if n == name else v) for n, v in m.rejects[at].headers]
    headers = tuple((n, v) for n, v in headers if n != name or v is not None)
    m.rejects[at] = replace(m.rejects[at], headers=headers)


def moved(by):
    return lambda after: b"%d/%d" % (int(after.split(b"/")[0]), int(after.split(b"/")[1]) + by)


def after_another_life(m):
    place_header(m, "reject-after", lambda _: b"7/7")


def after_garbage(m):
    place_header(m, "reject-after", lambda _: b"7/x")


def after_too_late(m):
    place_header(m, "reject-after", moved(30), b"bad-label")


def after_too_early(m):
    at = next(i for i, r in enumerate(m.rejects) if r.has_header("reject-after"))
    m.rejects.append(m.rejects.pop(at))  # the first one: there is always a next one later
    place_header(m, "reject-after", moved(-1))


def after_nothing(m):
    place_header(m, "reject-after", lambda _: None)


def gap_of_another(m):
    other = next(e["id"] for e in m.events if e["count"] == 1 and e["reason"] == "timeout")
    place_header(
        m, "reject-gap", lambda v: other.encode() if v != other.encode() else b"g", b"late"
    )


def gap_of_no_event(m):
    place_header(m, "reject-gap", lambda _: b"p:gap:a:1:0:0", b"late")


def no_gap(m):
    place_header(m, "reject-gap", lambda _: None, b"late")


def no_gap_refused(m):
    place_header(m, "reject-gap", lambda _: None, b"refused")


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (after_another_life, "wrong-after"),
        (after_garbage, "wrong-after"),
        (after_too_late, "wrong-after"),
        (after_too_early, "wrong-after"),
        (after_nothing, "wrong-after"),
        (gap_of_another, "wrong-gap"),
        (gap_of_no_event, "wrong-gap"),
        (no_gap, "wrong-gap"),
        (no_gap_refused, "wrong-gap"),
    ],
)
def test_faults_about_a_reject_s_place_are_found(plant, name):
    settings, material = story(5, LinearLabels(), refuse=True)
    plant(material)
    assert set(judge(settings, material).counts) == {name}
