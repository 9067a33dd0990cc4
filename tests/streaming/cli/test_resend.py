"""`sequencer resend` against a real broker; rejects are written as the service writes them."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from streaming.config import load_config
from streaming.crashes import RESEND_POINTS
from streaming.errors import Fenced, KafkaUnavailable
from streaming.resending import ledger, sending
from streaming.resending.choice import Choice
from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.proxies import Proxies
from tests.service_helpers import called, called_json, channel_topics, write_config
from tests.warm import python_path

NOW = 1_790_000_000_000
FAR = 1_000
"""Beyond the places that records get when they are sent back."""
SECONDS_MAX = 15
"""Kafka ends a transaction after `sending.TRANSACTION_TIMEOUT_MS` at the earliest."""


def reject(topic, number, reason="late", *, key=b"k", partition=0, headers=(), offset=None):
    """What the service writes for a record with this value; by default from far behind."""
    offset = FAR + number if offset is None else offset
    added = {"reason": reason, "topic": topic, "partition": partition, "offset": offset}
    return Record(
        key,
        b"%d" % number,
        [*headers, *((f"reject-{name}", str(told).encode()) for name, told in added.items())],
        timestamp=NOW + number,
    )


class Place:
    """A pipeline's topics with rejects in them, and the command to send them back."""

    def __init__(self, broker, prefix, folder):
        self.address = broker.bootstrap
        self.topics = channel_topics(prefix)
        self.input, self.rejects = self.topics["input"], self.topics["rejects"]
        self.ledger = f"{self.rejects}.resent"
        create_topics(self.address, {self.input: 3, self.rejects: 2})
        self.config = write_config(folder, self.address, {"p": self.topics})

    def write(self, *records):
        produce(self.address, self.rejects, list(records))

    def resend(self, *words):
        return called_json("resend", self.config, *words)

    def values(self, topic=None, count=0):
        """Of committed records, of which this many are to come: their markers may be late."""
        wait_for_records(self.address, topic or self.input, count)
        return [int(each.value) for each in read_all(self.address, topic or self.input)]

    def noted(self):
        return sorted(each.key.decode() for each in self.notes())

    def notes(self):
        """But for where runs begin."""
        return [each for each in read_all(self.address, self.ledger) if each.key != ledger.RUN]


@pytest.fixture
def place(broker, topic_prefix, tmp_path):
    return Place(broker, topic_prefix, tmp_path)


def test_a_record_goes_back_as_it_was_to_where_it_was(place):
    own = [("label", b"7"), ("reject-reason", b"a user's own"), ("x", None)]
    place.write(
        reject(place.input, 4, partition=2, headers=own),
        reject(place.input, 5, "buffer-full", partition=1),
        Record(b"k", b"6", [("label", b"1")]),
    )
    counts = place.resend("--reason", "late")
    assert counts["late"] == {"rejects": 1, "chosen": 1, "sent": 1, "before": 0, "came_back": 0}
    assert counts["buffer-full"]["chosen"] == 0
    wait_for_records(place.address, place.input, 1)
    (found,) = read_all(place.address, place.input)
    assert (found.partition, found.key, found.value) == (2, b"k", b"4")
    assert (found.headers, found.timestamp) == (own, NOW + 4)
    (note,) = place.notes()
    assert note.key.decode() == f"{place.input}/2@{FAR + 4}"
    assert json.loads(note.value) == {
        "reason": "late",
        "topic": place.input,
        "partition": 2,
        "offset": found.offset,
    }


def test_each_goes_back_once_in_whatever_parts(place):
    place.write(*(reject(place.input, n, key=b"ab"[n % 2 : n % 2 + 1]) for n in range(6)))
    place.write(reject(place.input, 0, key=b"a"))  # an at-least-once service wrote it twice
    dry = place.resend("--reason", "late", "--dry-run")
    assert dry["late"]["sent"] == 6
    assert place.values() == []
    assert place.resend("--reason", "late", "--where", "key = a", "--max", "2")["late"]["sent"] == 2
    assert place.resend("--reason", "late", "--where", f"offset >= {FAR + 4}")["late"]["sent"] == 2
    last = place.resend("--reason", "late", "--reason", "reset")["late"]
    assert (last["sent"], last["before"]) == (2, 5)
    assert place.resend("--reason", "late")["late"]["sent"] == 0
    assert sorted(place.values()) == list(range(6))
    assert len(place.noted()) == 6


def test_what_came_back_is_not_sent_round_and_round(place):
    place.write(reject(place.input, 7))
    place.resend("--reason", "late")
    (now,) = read_all(place.address, place.input)
    place.write(reject(place.input, 8, partition=now.partition, offset=now.offset))
    counts = place.resend("--reason", "late")["late"]
    assert (counts["sent"], counts["came_back"], counts["before"]) == (0, 1, 1)
    counts = place.resend("--reason", "late", "--again")["late"]
    assert (counts["sent"], counts["came_back"]) == (1, 1)
    assert len(place.values()) == 2


def test_to_another_topic_by_key(place):
    other = f"{place.input}.other"
    create_topics(place.address, {other: 2})
    place.write(*(reject(place.input, n, partition=2) for n in range(3)))
    words = ("resend", place.config, "--reason", "late", "--dry-run")
    assert "comes back" in called(*words)[2]
    assert "comes back" not in called(*words, "--to", other)[2], "the service does not read it"
    assert place.resend("--reason", "late", "--to", other)["late"]["sent"] == 3
    assert place.values(other) == [0, 1, 2]
    assert place.values() == []
    assert place.resend("--reason", "late")["late"]["before"] == 3


@pytest.mark.parametrize("point", RESEND_POINTS)
def test_a_crash_leaves_each_sent_and_noted_or_neither(place, point, tmp_path):
    place.write(*(reject(place.input, n, key=b"%d" % n) for n in range(20)))
    marker = tmp_path / "crashed"
    words = [sys.executable, "-m", "streaming.cli", "resend", str(place.config), "--reason", "late"]
    killed = subprocess.run(
        words,
        env={
            **os.environ,
            "PYTHONPATH": python_path(),
            "SEQUENCER_FAULT": f"{point}:{marker}",
            "SEQUENCER_BOOTSTRAP_SERVERS": place.address,
        },
        start_new_session=True,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert marker.exists()
    counts = place.resend("--reason", "late")["late"]
    expected = 20 if point == "resend-committed" else 0
    assert (counts["before"], counts["sent"]) == (expected, 20 - expected)
    wait_for_records(place.address, place.input, 20)
    assert sorted(place.values()) == list(range(20))
    assert len(place.noted()) == 20


def test_a_ledger_that_lacks_its_end_is_not_gone_by(place, monkeypatch):
    """A broker that was cut off and leads no more has an older one: all would be sent twice."""
    place.write(reject(place.input, 1), reject(place.input, 2))
    read = ledger.records

    def older(config, topic, begin=ledger.BEGINNING, **more):
        records = list(read(config, topic, begin, **more))
        yield from records[:-1] if topic == place.ledger else records

    monkeypatch.setattr(ledger, "records", older)
    with pytest.raises(KafkaUnavailable, match="no longer leads it"):
        resending(place).run(dry=False)
    assert not read_all(place.address, place.input)


def test_who_comes_later_takes_over(place, monkeypatch):
    """The first run stands still before it writes; the second does the work; the first ends."""
    place.write(*(reject(place.input, n) for n in range(4)))
    write = sending.Resending._write

    def write_later(run, book):
        monkeypatch.setattr(sending.Resending, "_write", write)
        assert place.resend("--reason", "late")["late"]["sent"] == 4
        write(run, book)

    monkeypatch.setattr(sending.Resending, "_write", write_later)
    with pytest.raises(Fenced, match="took over"):
        resending(place).run(dry=False)
    assert place.values() == [0, 1, 2, 3]
    assert len(place.noted()) == 4


def test_a_broker_that_was_cut_off_does_not_hide_another_run(place, monkeypatch):
    """The first run stands still behind its note; then it reads where the second one's work is not."""
    place.write(*(reject(place.input, n) for n in range(4)))
    require, ends = sending.Resending._require_alone, ledger._ends

    def stand_still(run, book, least):
        monkeypatch.setattr(sending.Resending, "_require_alone", require)
        stale = ends(run.config, book)
        assert place.resend("--reason", "late")["late"]["sent"] == 4
        older = {book: stale}
        monkeypatch.setattr(ledger, "_ends", lambda config, t: older.get(t) or ends(config, t))
        require(run, book, least)

    monkeypatch.setattr(ledger, "MARKER_SECONDS_MAX", 0.5)
    monkeypatch.setattr(sending.Resending, "_require_alone", stand_still)
    with pytest.raises(KafkaUnavailable, match="no longer leads it"):
        resending(place).run(dry=False)
    assert sorted(place.values(count=4)) == [0, 1, 2, 3]


def test_between_two_transactions_another_run_takes_over(place, monkeypatch):
    """The first run has sent half; then a second one does the rest."""
    place.write(*(reject(place.input, n) for n in range(4)))
    begin_again = sending.Resending._begin_again

    def begin_later(run, book, noted):
        monkeypatch.setattr(sending.Resending, "_begin_again", begin_again)
        assert place.resend("--reason", "late")["late"]["sent"] == 2
        begin_again(run, book, noted)

    monkeypatch.setattr(sending, "BATCH_RECORDS", 2)
    monkeypatch.setattr(sending.Resending, "_begin_again", begin_later)
    with pytest.raises(Fenced, match=r"took over.* 2 rejects were sent back"):
        resending(place).run(dry=False)
    assert sorted(place.values(count=4)) == [0, 1, 2, 3]
    assert len(place.noted()) == 4


@pytest.mark.parametrize("transaction", [1, 2])
def test_a_late_request_of_one_transaction_leaves_the_next_whole(place, monkeypatch, transaction):
    """An EndTxn that was asked twice comes when a later transaction has sent, not noted.

    It is that of the run's note.
    """
    place.write(*(reject(place.input, n) for n in range(4)))
    monkeypatch.setattr(sending, "BATCH_RECORDS", 2)
    sent = []

    def crash(point):
        if point == "resend-sent":
            sent.append(point)
        if len(sent) == transaction:
            answers = proxies.watch("EndTxn", answers=True)
            late.release()
            answers.wait()
            raise Killed

    with Proxies(place.address) as proxies, ThreadPoolExecutor(1) as meanwhile:
        config = load_config(place.config)
        kafka = config.kafka.model_copy(update={"bootstrap_servers": proxies.bootstrap})
        late = proxies.hold("EndTxn", 1)
        cut = meanwhile.submit(lambda: (late.wait(), proxies.cut()))
        with monkeypatch.context() as patched:
            patched.setattr(sending, "crash_point", crash)
            with pytest.raises(Killed):
                resending(place, replace(config, kafka=kafka)).run(dry=False)
        cut.result(60)
    before = [0, 1][: 2 * (transaction - 1)]
    assert sorted(place.values(count=len(before))) == before
    assert place.resend("--reason", "late")["late"]["sent"] == 4 - len(before)
    assert sorted(place.values(count=4)) == [0, 1, 2, 3]


def test_a_run_that_cannot_begin_leaves_no_transaction_open(place, monkeypatch):
    """Else who reads the ledger next would wait until Kafka ends it."""
    flush = sending.connection.flush
    monkeypatch.setattr(sending.connection, "flush", lambda *given: flush(*given) + 1)
    with pytest.raises(KafkaUnavailable, match="Kafka failed to begin"):
        resending(place).run(dry=False)
    produce(place.address, place.ledger, [Record(b"behind", b"")])
    wait_for_records(place.address, place.ledger, 1, limit_s=SECONDS_MAX)


class Killed(BaseException):
    """Stands for a kill: nothing is done any more."""


def resending(place, config=None):
    config = config or load_config(place.config)
    return sending.Resending(config, "p", Choice.of(["late"], []), print)


def test_what_cannot_be_sent_is_refused(place, broker, tmp_path):
    place.write(reject("elsewhere", 1))
    code, _, err = called("resend", place.config, "--reason", "late")
    assert code == 2
    assert "elsewhere, which is not an input of p" in err
    code, _, err = called("resend", place.config, "--reason", "late", "--to", "not.there")
    assert code == 2
    assert "Topics are missing in Kafka: not.there" in err
    assert "Nothing was sent." in err
    assert "sequencer topics" not in err  # that would not create it
    code, _, err = called("resend", place.config, "--where", "label > 3")
    assert code == 2
    assert "is not a condition" in err
    folder = tmp_path / "second"
    folder.mkdir()
    after = {"input": place.topics["output"], "rejects": f"{place.rejects}.after"}
    both = {"p": place.topics, "after": after}
    create_topics(broker.bootstrap, dict.fromkeys(after.values(), 1))
    config = write_config(folder, broker.bootstrap, both)
    code, _, err = called("resend", config, "--reason", "late", "--pipeline", "after")
    assert code == 2
    assert "is written by pipeline p" in err
    produce(broker.bootstrap, after["rejects"], [reject(after["input"], 1)])
    (told,) = called_json("resend", config, "--pipeline", "after").values()
    assert (told["rejects"], told["chosen"], told["sent"]) == (1, 1, 0), "it only counts"
    output = place.topics["output"]
    code, _, err = called("resend", place.config, "--reason", "late", "--to", output)
    assert code == 2
    assert f"{output} is written by pipeline p" in err
    told = called_json("resend", place.config, "--to", output)
    assert (told["late"]["chosen"], told["late"]["sent"]) == (1, 0), "it would be refused"
    assert place.values(output) == []
    group = {"discipline": "group", "groups": {"G": ["A"]}, "output": "one.{subscriber}"}
    config = write_config(folder, broker.bootstrap, {"p": place.topics, "g": group})
    words = ("--reason", "late", "--pipeline", "p", "--to", "one.A")
    code, _, err = called("resend", config, *words)
    assert code == 2
    assert "one.A is written by pipeline g" in err
    code, _, err = called("resend", config, "--reason", "late")
    assert code == 2
    assert "Name one with --pipeline" in err


def test_the_table_tells_reasons_and_what_brings_them_back(place):
    place.write(reject(place.input, 1, "buffer-full"), reject(place.input, 2, "bad-label"))
    code, out, err = called("resend", place.config)
    assert code == 0
    assert "would send" in out
    assert place.values() == []
    code, out, err = called("resend", place.config, "--reason", "buffer-full", "--reason", "late")
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["bad-label", "1", "0", "0", "0", "0"],
        ["buffer-full", "1", "1", "1", "0", "0"],
    ]
    assert "the channel's buffer has to have room again" in err
    assert "no reject has the reason late" in err
    code, _, err = called("resend", place.config, "--reason", "buffer-ful")
    assert code == 2
    assert "--reason buffer-ful: no record of this pipeline is rejected for that." in err
    assert "Did you mean buffer-full?" in err
    place.write(reject(place.input, 3, "reset"))
    code, _, err = called("resend", place.config, "--reason", "reset")
    assert (code, "comes back" in err) == (0, False)  # its channel began again
