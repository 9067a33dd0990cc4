"""`sequencer resend` sends each reject once, whatever ends, stands still or comes late."""

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
from tests.kafka_helpers import Record, produce, read_all, wait_for_records
from tests.proxies import Proxies
from tests.streaming.cli.rejected import reject
from tests.warm import python_path

"""Beyond the places that records get when they are sent back."""
SECONDS_MAX = 15


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
