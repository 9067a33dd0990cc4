import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.channels.plain import Channel, Results
from sequencer.channels.rules import Rules
from sequencer.custom_labels import CustomLabels
from sequencer.labels import CyclicLabels, LinearLabels
from sequencer.proxy import Arrival, LabelProxy, OrderedProxy
from tests.sequencer.actors.actor_runs import order_by_actors

DELIVERED, HELD = Arrival.DELIVERED, Arrival.HELD


def letters(label):
    """a, b, … z, a, …"""
    return "a" if label == "z" else chr(ord(label) + 1)


SEQUENCES = {
    "linear": LinearLabels(),
    "linear by 3 from 7": LinearLabels(7, 3),
    "cyclic": CyclicLabels(32),
    "cyclic by 6 from 3": CyclicLabels(64, 3, 6),
    "custom cycle": CustomLabels("a", letters),
    "custom": CustomLabels(
        "0", lambda t: t + "x"[: len(t) % 2] if len(t) > 900 else f"{int(t) + 1}"
    ),
}


def labelled(labels, messages):
    out = []
    proxy = LabelProxy(out.append, labels)
    for message in messages:
        proxy(message)
    return out


def test_the_fixtures_of_the_text():
    out = []
    proxy = OrderedProxy(out.append, LinearLabels())
    outcomes = [proxy(pair) for pair in ((3, "w"), (1, "y"), (2, "x"), (0, "z"))]
    assert out == ["z", "y", "x", "w"]
    assert outcomes == [HELD, HELD, HELD, DELIVERED]
    assert (proxy.held, proxy.delivered, proxy.expected) == (0, 4, 4)


@st.composite
def disorder(draw, count_max=60, reach=8):
    """Positions 0 … count - 1, each at most ``reach`` early; some may be lost."""
    count = draw(st.integers(0, count_max))
    keys = [n + draw(st.integers(0, reach)) for n in range(count)]
    lost = draw(st.sets(st.integers(0, count_max + 30), max_size=2))
    order = sorted(range(count), key=lambda n: (keys[n], n))
    if lost:  # behind a lost one a cycle must not come round
        order = [n for n in order if n <= min(lost) + reach]
    return [n for n in order if n not in lost]


@pytest.mark.parametrize("name", SEQUENCES)
@given(data=st.data())
def test_the_proxy_does_what_the_actors_of_the_text_do(name, data):
    labels = SEQUENCES[name]
    order = data.draw(disorder())
    stream = labelled(labels, range(max(order, default=0) + 1))
    arrivals = [stream[n] for n in order]
    out = []
    proxy = OrderedProxy(out.append, labels, rejects=lambda *reject: pytest.fail(str(reject)))
    outcomes = [proxy(arrival) for arrival in arrivals]
    assert out == order_by_actors(
        arrivals, labels.initial, labels.next, data.draw(st.integers(0, 9))
    )
    assert out == list(range(len(out)))
    assert proxy.held == len(arrivals) - len(out)
    assert (HELD in outcomes) == (order != sorted(order) or proxy.held > 0)


@given(
    st.sampled_from(sorted(SEQUENCES)),
    st.integers(1, 12),
    st.integers(1, 6),
    st.lists(st.integers(-3, 40), max_size=60),
)
def test_bounds_and_reasons_are_those_of_the_discipline_channel(name, window, held_max, drawn):
    """Any labels whatever, against one channel of the pipeline with the same bounds."""
    labels = SEQUENCES[name]
    rules = Rules(labels=labels, window=window, held_max=held_max)
    channel = Channel(b"", rules, Results())
    out = []
    proxy = OrderedProxy(out.append, labels, window=window, held_max=held_max, same=lambda *_: True)
    for row, number in enumerate(drawn):
        label = labels.at(number) if number >= 0 else "no label"
        place = labels.position(label)
        before = len(channel.results.rejected)
        if place >= 0:
            channel.arrive(place, 0, row, 0, fin=False)
        else:
            assert proxy((label, row)) is Arrival.BAD_LABEL
            continue
        got = proxy((label, row))
        if len(channel.results.rejected) > before:
            want = channel.results.rejected[-1][1].text
            if got is Arrival.OUTSIDE_WINDOW and want == "duplicate":
                # the proxy says more than the pipeline: nothing was delivered that far back
                assert labels.cycle is not None
                assert proxy.delivered < labels.cycle - window
            else:
                assert got.value == want
        else:
            assert got in (DELIVERED, HELD)
        assert out == [row for row, _, _ in channel.results.delivered]
        assert proxy.held == len(channel.held) <= held_max
    assert proxy.rejected.total() == len(drawn) - len(out) - proxy.held


def test_the_first_copy_wins_and_every_reject_is_told():
    out, rejects = [], []
    proxy = OrderedProxy(
        out.append, LinearLabels(10, 5), held_max=2, window=10, rejects=lambda *r: rejects.append(r)
    )
    arrivals = [
        (15, "b", HELD),
        (15, "b", Arrival.DUPLICATE),
        (15, "other", Arrival.CONFLICT),
        (10, "a", DELIVERED),
        (10, "other", Arrival.DUPLICATE),
        (11, "off the step", Arrival.BAD_LABEL),
        (5, "below the start", Arrival.BAD_LABEL),
        ("20", "text", Arrival.BAD_LABEL),
        (20 + 10 * 5, "at the window", HELD),
        (20 + 11 * 5, "one past it", Arrival.OUTSIDE_WINDOW),
        (25, "d", HELD),
        (30, "one too many", Arrival.BUFFER_FULL),
        (20, "c", DELIVERED),  # the expected label always fits
    ]
    for label, message, outcome in arrivals:
        assert proxy((label, message)) is outcome, label
    assert out == ["a", "b", "c", "d"]
    assert rejects == [row for row in arrivals if row[2] not in (DELIVERED, HELD)]
    assert proxy.rejected[Arrival.DUPLICATE] == 2
    assert (proxy.delivered, proxy.held, proxy.expected) == (4, 1, 30)


def test_a_cycle_shorter_than_what_is_in_transit_is_detected_where_it_can_be():
    """Eight labels; the window ahead is three (below half the cycle)."""
    proxy = OrderedProxy(print, CyclicLabels(8))
    assert proxy((5, "#5, or #13")) is Arrival.OUTSIDE_WINDOW  # nothing was delivered that far back
    assert proxy((3, "#3")) is HELD
    assert proxy((3, "#11")) is Arrival.CONFLICT  # two messages of one label, neither delivered


def test_a_cycle_shorter_than_what_is_in_transit_is_not_detected_when_it_fits_the_window():
    """Message #8 has the label of #0, overtakes it, and is taken for it: order is lost unseen."""
    out, rejects = [], []
    proxy = OrderedProxy(out.append, CyclicLabels(8), rejects=lambda *r: rejects.append(r))
    stream = labelled(CyclicLabels(8), [f"#{n}" for n in range(9)])
    assert stream[8] == (0, "#8")
    assert proxy(stream[8]) is DELIVERED  # wrong, and nothing shows it
    for pair in stream[:8]:
        proxy(pair)
    assert out == ["#8", "#1", "#2", "#3", "#4", "#5", "#6", "#7"]
    assert rejects == [(0, "#0", Arrival.DUPLICATE)]  # what can be seen, later: #0 taken for a copy

    long = OrderedProxy(out.append, CyclicLabels(32))  # a cycle longer than what is in transit
    stream = labelled(CyclicLabels(32), [f"#{n}" for n in range(9)])
    out.clear()
    for pair in (stream[8], *stream[:8]):
        long(pair)
    assert out == [f"#{n}" for n in range(9)]


def test_cyclic_labels_go_round_many_times():
    out = []
    proxy = OrderedProxy(out.append, CyclicLabels(8))
    label = LabelProxy(proxy, CyclicLabels(8))
    for n in range(1000):
        label(n)
    assert out == list(range(1000))
    assert proxy((7, 999)) is Arrival.DUPLICATE


def test_a_finite_sequence_ends():
    def until_c(label):
        if label == "c":
            raise StopIteration
        return chr(ord(label) + 1)

    out = []
    proxy = OrderedProxy(out.append, CustomLabels("a", until_c))
    label = LabelProxy(proxy, CustomLabels("a", until_c))
    for message in (1, 2, 3):
        label(message)
    assert (out, proxy.expected, label.label) == ([1, 2, 3], None, None)
    with pytest.raises(OverflowError, match="was not sent"):
        label(4)
    assert proxy(("d", 4)) is Arrival.BAD_LABEL
    linear = LabelProxy(out.append, LinearLabels(2**63 - 2))
    linear("last but one")
    linear("last")
    with pytest.raises(OverflowError):
        linear("too many")
    assert out[3:] == [(2**63 - 2, "last but one"), (2**63 - 1, "last")]
    ordered = OrderedProxy(out.append, LinearLabels(2**63 - 2))
    assert [ordered(pair) for pair in out[:2:-1]] == [HELD, DELIVERED]
    assert (out[5:], ordered.expected) == (["last but one", "last"], None)


def test_labels_that_utf8_cannot_write_are_labels_in_process():
    labels = CustomLabels("\ud7fe", lambda label: chr(ord(label) + 1))
    out = []
    proxy = OrderedProxy(out.append, labels)
    label = LabelProxy(proxy, labels)
    for n in range(2060):  # the 2,048 surrogates, and some on each side
        label(n)
    assert (out, proxy.rejected.total()) == ([*range(2060)], 0)


def test_a_label_is_used_again_when_its_send_failed():
    sent, fail = [], [True, True, False, False]

    def send(pair):
        if fail.pop(0):
            raise ConnectionError("down")
        sent.append(pair)

    label = LabelProxy(send, LinearLabels())
    for message in ("a", "b"):
        with pytest.raises(ConnectionError):
            label(message)
    label("c")
    label("d")
    assert sent == [(0, "c"), (1, "d")]


def test_a_destination_that_sends_through_the_label_proxy_gets_other_labels():
    sent = []

    def send(pair):
        sent.append(pair)
        if pair[1] == "first":
            label("inner")
            raise ConnectionError("after the inner one")

    label = LabelProxy(send, LinearLabels())
    with pytest.raises(ConnectionError):
        label("first")
    label("second")
    assert sent == [(0, "first"), (1, "inner"), (2, "second")]


def test_a_delegate_that_fails_loses_only_its_own_message():
    out = []

    def delegate(message):
        out.append(message)
        if message == 1:
            raise ValueError("no")

    proxy = OrderedProxy(delegate, LinearLabels())
    for n in (1, 2, 3):
        proxy((n, n))
    with pytest.raises(ValueError, match="no"):
        proxy((0, 0))
    assert (out, proxy.delivered, proxy.held) == ([0, 1], 2, 2)
    assert proxy((0, 0)) is Arrival.DUPLICATE  # any arrival lets the rest go
    assert out == [0, 1, 2, 3]


def test_after_an_error_behind_both_proxies_the_same_message_is_sent_again():
    out = []

    def delegate(message):
        out.append(message)
        if out == ["a"]:
            raise ValueError("once")

    ordered = OrderedProxy(delegate, LinearLabels())
    label = LabelProxy(ordered, LinearLabels())
    with pytest.raises(ValueError, match="once"):
        label("a")
    for message in ("a", "b"):
        label(message)
    assert (out, ordered.rejected[Arrival.DUPLICATE]) == (["a", "b"], 1)


def test_a_delegate_may_send_to_the_proxy():
    done = []

    def delegate(message):
        if message < 3:
            assert proxy((message + 1, message + 1)) is HELD
        done.append(message)

    proxy = OrderedProxy(delegate, LinearLabels())
    assert proxy((0, 0)) is DELIVERED
    assert done == [0, 1, 2, 3]


def test_bounds_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="below half of the labels' cycle"):
        OrderedProxy(print, CyclicLabels(8), window=4)
    with pytest.raises(ValueError, match="held_max is 0"):
        OrderedProxy(print, LinearLabels(), held_max=0)
