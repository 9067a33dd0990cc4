"""Labels in what is more than a batch reads: sent while the service was away, or at once."""

import time

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.service_helpers import WarmService, channel_topics, run_once, write_config

AFTER_S, OTHERS = 15, 300
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


def sent(key, *labels):
    return [Record(key, b"%d" % label, [("label", b"%d" % label)], 0) for label in labels]


@pytest.mark.parametrize("kill", [False, True])
def test_a_label_that_lies_unread_is_not_given_up(broker, topic_prefix, tmp_path, kill):
    """The gap time is over when the service starts again; the label comes in the last batch."""
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 1})
    pipeline = {**channel_topics(topic_prefix), "gap": {"policy": "skip", "after": f"{AFTER_S} s"}}
    sizes = {"shards": 2, "state_partitions": 2, "batch_records_max": 100}
    config = write_config(tmp_path, broker.bootstrap, {"p": pipeline}, **sizes)
    produce(broker.bootstrap, f"{topic_prefix}in", sent(b"k", 2, 0))
    with WarmService(config) as service:
        wait_for_records(broker.bootstrap, f"{topic_prefix}out", 1)
        if kill:
            service.kill()
        else:
            assert service.stop() == 0
    produce(broker.bootstrap, f"{topic_prefix}in", sent(b"other", *range(OTHERS)) + sent(b"k", 1))
    time.sleep(AFTER_S)
    with WarmService(config) as service:
        wait_for_records(broker.bootstrap, f"{topic_prefix}out", OTHERS + 3)
        produce(broker.bootstrap, f"{topic_prefix}in", sent(b"k", 4))
        wait_for_records(broker.bootstrap, f"{topic_prefix}events", 1)  # counts as ever again
        assert service.stop() == 0
    values = [each.value for each in read_all(broker.bootstrap, f"{topic_prefix}out")]
    of_k = [each for each in read_all(broker.bootstrap, f"{topic_prefix}out") if each.key == b"k"]
    assert [each.value for each in of_k] == [b"0", b"1", b"2", b"4"]
    assert len(values) == OTHERS + 4
    assert not read_all(broker.bootstrap, f"{topic_prefix}rejects")


def test_nor_one_that_lies_behind_more_than_the_gap_time_s_batches(broker, topic_prefix, tmp_path):
    """The service never stops; it takes 16 s to read what comes in a moment."""
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 1})
    pipeline = {**channel_topics(topic_prefix), "gap": {"policy": "skip", "after": "10 s"}}
    sizes = {"shards": 2, "state_partitions": 2, "batch_records_max": 100, "trigger": "1 s"}
    config = write_config(tmp_path, broker.bootstrap, {"p": pipeline}, **sizes)
    others = sent(b"other", *range(1_600))
    with WarmService(config) as service:
        sends = [*sent(b"k", 2, 0), *sent(b"never", 1), *others, *sent(b"k", 1)]
        produce(broker.bootstrap, f"{topic_prefix}in", sends)
        wait_for_records(broker.bootstrap, f"{topic_prefix}out", len(sends))
        assert service.stop() == 0
    of_k = [each for each in read_all(broker.bootstrap, f"{topic_prefix}out") if each.key == b"k"]
    assert [each.value for each in of_k] == [b"0", b"1", b"2"]
    assert len(read_all(broker.bootstrap, f"{topic_prefix}events")) == 1, "the gap of `never`"
    assert not read_all(broker.bootstrap, f"{topic_prefix}rejects")


def test_nor_one_that_the_next_run_reads_last(broker, topic_prefix, tmp_path):
    """With --once, more than four gap times after the previous run; what is not there is given up."""
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 1})
    pipeline = {**channel_topics(topic_prefix), "gap": {"policy": "skip", "after": "10 s"}}
    sizes = {"shards": 2, "state_partitions": 2, "batch_records_max": 100}
    config = write_config(tmp_path, broker.bootstrap, {"p": pipeline}, **sizes)
    for sends in (
        sent(b"k", 2, 0) + sent(b"never", 1),
        [*sent(b"other", *range(OTHERS)), *sent(b"k", 1)],
        sent(b"k", 3),
    ):
        produce(broker.bootstrap, f"{topic_prefix}in", sends)
        run_once(config)
        time.sleep(41 if len(sends) == 3 else 0)
    of_k = [each for each in read_all(broker.bootstrap, f"{topic_prefix}out") if each.key == b"k"]
    assert [each.value for each in of_k] == [b"0", b"1", b"2", b"3"]
    assert len(read_all(broker.bootstrap, f"{topic_prefix}events")) == 1, "the gap of `never`"
    assert not read_all(broker.bootstrap, f"{topic_prefix}rejects")
