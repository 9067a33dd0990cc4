"""SIGTERM: taken by the driver, again and again; left to it by the JVM and the workers."""

import os
import signal

from pyspark import daemon

from streaming.service import worker_daemon
from streaming.service.stopping import NUMBERS, Stopping


def test_the_first_signal_is_told_and_others_change_nothing(capsys):
    before = [signal.getsignal(number) for number in NUMBERS]
    stopping = Stopping()
    with stopping.listening():
        assert not stopping.is_set()
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert stopping.wait(10)
    assert capsys.readouterr().err.count("finishing the running batch") == 1
    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_workers_leave_sigterm_as_it_came():
    assert isinstance(daemon.signal, worker_daemon._Signal)
    before = signal.getsignal(signal.SIGTERM)
    daemon.signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGTERM) == before
    hang_up = signal.getsignal(signal.SIGHUP)
    daemon.signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    signal.signal(signal.SIGHUP, hang_up)
