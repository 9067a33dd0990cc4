"""Judging channels in parts says what judging all of them at once says."""

import tracemalloc
import zlib
from dataclasses import replace

import pyarrow as pa
import pytest

from sequencer import custom_labels
from sequencer.labels import LinearLabels
from streaming.arrow.partitioner import partitions_of
from streaming.errors import SequencerError
from streaming.verify import channel_parts
from streaming.verify.channel import ChannelSettings, Material, judge
from streaming.verify.channel_parts import Feed, judge_in_parts, parts_for
from streaming.verify.records import Record
from tests.streaming.verify import test_channel as plants
from tests.streaming.verify.channel_parts import feed_of
from tests.streaming.verify.channel_stories import story
from tests.streaming.verify.places import PARTITIONS, partition_of

PLANTS = (
    *(plants.swap, plants.lose_in_the_middle, plants.repeat, plants.other_bytes),
    *(plants.other_partition, plants.no_numbers, plants.hide_gap, plants.lose_reject),
    *(plants.alter_reject, plants.double_reject, plants.wrong_reason, plants.renumber),
    *(plants.lose_refused, plants.hide_refusal, plants.leave_out, lambda _: None),
)


@pytest.mark.parametrize("plant", PLANTS)
def test_parts_find_what_the_whole_finds(plant, monkeypatch):
    monkeypatch.setattr(channel_parts, "WAITING_MAX", 7)
    settings, material = story(5, LinearLabels(), refuse=True)
    plant(material)
    material.outputs.sort(key=lambda each: each.partition)
    whole = judge(settings, material)
    for count in (1, 2, 5):
        found, ends = judge_in_parts(settings, feed_of(material), count)
        assert found.counts == whole.counts
        assert {each.witness for each in found.faults} == {each.witness for each in whole.faults}
        assert found.looked_at == whole.looked_at
        last = material.inputs[-1]
        assert ends["in", 0] == last.offset + 1


def test_memory_is_that_of_a_part(monkeypatch):
    """Ten times the records take less than three times as much; all at once it is twelve."""
    monkeypatch.setattr(channel_parts, "WAITING_MAX", 100)
    peaks = {}
    for channels in (5, 10, 100):  # the first one imports
        settings = ChannelSettings("p", LinearLabels(), 50, output_partitions=PARTITIONS)
        tracemalloc.start()
        verdict, _ = judge_in_parts(settings, in_order(channels, 50), max(channels // 10, 1))
        peaks[channels] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert verdict.good, verdict.faults[:2]
        assert verdict.looked_at["deliveries"] == 50 * channels
    assert peaks[100] < 3 * peaks[10], peaks


def in_order(channels, labels):
    """Inputs of so many channels, and what has to become of them."""
    keys = [b"k%d" % n for n in range(channels)]
    homes = [partition_of(key) for key in keys]
    texts = [b"%d" % n for n in range(labels)]

    def inputs():
        for n in range(channels * labels):
            headers = (("label", texts[n // channels]),)
            yield Record("in", 0, n, 1, keys[n % channels], b"v%d" % n, headers)

    def outputs():
        for n in range(channels * labels):
            text, at = texts[n // channels], n % channels
            headers = (("label", text), ("sequence", text), ("incarnation", b"9"))
            yield Record("out", homes[at], n, 1, keys[at], b"v%d" % n, headers)

    return Feed(outputs(), (), (), (), (), inputs())


def test_small_topics_are_one_part_and_large_ones_as_many_as_they_need():
    assert parts_for(0) == parts_for(channel_parts.WHOLE_RECORDS_MAX) == 1
    assert parts_for(10_000_001) == 41


def test_a_disk_that_is_full_is_said(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(channel_parts.marshal, "dumps", full)
    settings, material = story(4, LinearLabels())
    with pytest.raises(SequencerError, match=r"No space left on device.*TMPDIR"):
        judge_in_parts(settings, feed_of(material), 3)


def test_one_number_of_partitions_has_to_fit_the_keys_of_all_parts():
    """Of a topic that was given partitions: where its first keys lie is where all belong."""

    def home(key, count):
        return int(partitions_of(pa.array([key], pa.binary()), count)[0])

    keys = [b"k%d" % n for n in range(400)]
    old = [key for key in keys if zlib.crc32(key) % 2 == 0][:6]
    new = [k for k in keys if zlib.crc32(k) % 2 and home(k, 6) != home(k, 2)][:6]
    where = {key: home(key, 2) for key in old} | {key: home(key, 6) for key in new}
    said = (("label", b"0"), ("sequence", b"0"), ("incarnation", b"9"))
    inputs = [Record("in", 0, n, 1, k, b"", said[:1]) for n, k in enumerate(where)]
    outputs = [Record("out", at, n, 1, k, b"", said) for n, (k, at) in enumerate(where.items())]
    outputs.sort(key=lambda each: each.partition)
    settings = ChannelSettings("p", LinearLabels(), 50, output_partitions=6)
    found = judge_in_parts(settings, feed_of(Material(inputs, outputs, [], [])), 2)[0]
    assert found.counts["wrong-partition"]


def test_custom_labels_are_searched_as_far_in_parts_as_in_the_whole(monkeypatch):
    """A channel that jumped ahead, beside one of many records that lies in another part."""
    monkeypatch.setattr(custom_labels, "CYCLE_SEARCH_MAX", 1)  # of labels that are known at once
    place, jumped, many = custom_labels.BLOCK + 1_500, b"k4", b"a"
    assert (zlib.crc32(jumped) % 2, zlib.crc32(many) % 2) == (0, 1), "its part is the first one"
    labels = custom_labels.CustomLabels("L0", lambda text: f"L{int(text[1:]) + 1}")
    sent = [(jumped, place), *((many, n) for n in range(place))]
    inputs = [
        Record("in", 0, n, 1, key, b"v", (("label", b"L%d" % at),))
        for n, (key, at) in enumerate(sent)
    ]
    numbers = [0, *range(place)]
    outputs = [
        replace(
            each,
            topic="out",
            partition=partition_of(each.key),
            headers=(*each.headers, ("sequence", b"%d" % n), ("incarnation", b"9")),
        )
        for each, n in zip(inputs, numbers, strict=True)
    ]
    outputs.sort(key=lambda each: each.partition)
    ends = {"from": "L0", "to": f"L{place}", "count": place, "waited_ms": 0, "reason": "epoch"}
    gap = {"event": "gap", "id": "g", "channel": "k4", "incarnation": 9, "epoch": 0, **ends}
    settings = ChannelSettings("p", labels, 10, output_partitions=PARTITIONS)
    found, _ = judge_in_parts(settings, feed_of(Material(inputs, outputs, [], [gap])), 2)
    assert found.good, found.faults[:2]
