"""Large records that wait, and tables of many channels, lie in files of the checkpoint.

Real Spark, a real broker, kill -9.
"""

import random
import signal

import pytest

from streaming.disciplines.channels.shard_files import FILE_BYTES_MIN
from tests.faults.channels import judge, prepare, some_messages, value_of
from tests.kafka_helpers import Record, produce, read_all, read_by_librdkafka
from tests.service_helpers import Service, inspect, run_once, status, verify

pytestmark = pytest.mark.timeout(600)
KEYS = [b"k%02d" % n for n in range(4)]
SIZE = 40_000


def records(labels):
    return [
        Record(key, value_of(key, label, SIZE), [("label", b"%d" % label)])
        for label in labels
        for key in KEYS
    ]


def test_they_outlive_a_kill_after_their_delivery_and_then_go(broker, topic_prefix, tmp_path):
    config = prepare(broker, topic_prefix, tmp_path, shards=2, state_partitions=2)
    held = tmp_path / "checkpoints" / "p" / "held"

    def files():
        return sorted(path for path in held.glob("*/*") if path.is_file())

    def send(labels):
        produce(broker.bootstrap, f"{topic_prefix}in", records(labels))

    early = [*range(1, 16)]
    random.Random(1).shuffle(early)
    send(early)
    run_once(config)
    assert status(config)["p"]["held"] == 60
    assert sum(path.stat().st_size for path in files()) > 50 * SIZE
    state = sum(
        path.stat().st_size
        for path in (tmp_path / "checkpoints" / "p" / "state").rglob("*")
        if path.is_file()
    )
    assert state < 10 * SIZE
    assert {each["held"] for each in inspect(config)["channels"]} == {15}

    waiting = files()
    send([0])
    fault = {"SEQUENCER_FAULT": f"4-5:{tmp_path}/died"}
    with Service(config, "--once", environment=fault) as run:
        assert run.wait() == -signal.SIGKILL, run.said()
    assert set(waiting) <= set(files()), "the batch is repeated, from the state that names them"
    run_once(config)
    assert status(config)["p"]["held"] == 0
    send([16])
    run_once(config)
    assert not files()
    judge(broker.bootstrap, topic_prefix, 17, 17 * len(KEYS), status(config)["p"], KEYS, SIZE)
    code, said = verify(config)
    assert code == 0, said


@pytest.mark.slow
def test_the_tables_of_many_channels_outlive_a_kill(broker, topic_prefix, tmp_path):
    config = prepare(broker, topic_prefix, tmp_path, shards=2, state_partitions=2)
    keys = [b"channel-%05d" % n for n in range(8_000)]
    held, rng = tmp_path / "checkpoints" / "p" / "held", random.Random(1)

    def send(first, count):
        batch = some_messages(first, count, rng, keys)
        produce(broker.bootstrap, f"{topic_prefix}in", batch)
        return len(batch)

    sent = send(1, 2)
    run_once(config)
    before = {*held.glob("*/*")}
    assert sum(path.stat().st_size for path in before) > 2 * FILE_BYTES_MIN
    assert len({path.parent for path in before}) == 2
    channels = inspect(config)["channels"]
    assert {each["channel"].encode() for each in channels} == {*keys}
    assert {(each["held"], each["next"], each["missing"] == [[0, 1]]) for each in channels} == {
        (2, 0, True)
    }

    sent += send(0, 1)
    fault = {"SEQUENCER_FAULT": f"4-5:{tmp_path}/died"}
    with Service(config, "--once", environment=fault) as run:
        assert run.wait() == -signal.SIGKILL, run.said()
    assert before <= {*held.glob("*/*")}, "the batch is repeated, from the tables of its state"
    run_once(config)
    judge(broker.bootstrap, topic_prefix, 3, sent, status(config)["p"], keys)


def test_every_client_reads_values_that_were_compressed_one_by_one(broker, topic_prefix, tmp_path):
    """kafka-python, librdkafka, and Java, by whose library the broker looks into each batch."""
    config = prepare(broker, topic_prefix, tmp_path, shards=2, state_partitions=2)
    labels = [*range(40)]
    random.Random(2).shuffle(labels)
    sizes = (0, 3, 1_000, 4_096, 10_000, 70_000, 700_000)
    given = {
        (key, b"%d" % label): value_of(key, label) + b" and so on" * (sizes[label % 7] // 10)
        for label in labels
        for key in KEYS
    }
    sent = [Record(key, value, [("label", label)]) for (key, label), value in given.items()]
    produce(broker.bootstrap, f"{topic_prefix}in", sent)
    run_once(config)
    code, said = verify(config)
    assert code == 0, said
    output = f"{topic_prefix}out"
    by_python = read_all(broker.bootstrap, output)
    by_librdkafka = read_by_librdkafka(broker.bootstrap, output, len(given))
    for there in (by_python, by_librdkafka):
        found = [(each.key, each.header("label"), each.value) for each in there]
        assert {each[:2]: each[2] for each in found} == given
        assert len(found) == len(given)
        for key in KEYS:
            mine = [int(label) for its, label, _ in found if its == key]
            assert mine == sorted(mine)
