"""SIGTERM: taken by the driver, again and again; left to it by the JVM and the workers."""

import os
import signal
import subprocess

from pyspark import daemon, java_gateway

from streaming.service import session, worker_daemon
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


def test_what_pyspark_starts_inside_ignores_sigterm():
    usual = java_gateway.Popen

    def started():
        """What a shell, started as PySpark starts the JVM, does after a SIGTERM to itself."""
        return java_gateway.Popen(
            ["sh", "-c", "kill -TERM $$; echo alive"],
            preexec_fn=lambda: None,
            stdout=subprocess.PIPE,
        )

    with session._quiet_java():
        assert started().communicate()[0] == b"alive\n"
    assert java_gateway.Popen is usual
    killed = started()
    assert killed.communicate()[0] == b""
    assert killed.returncode == -signal.SIGTERM


def test_workers_leave_sigterm_as_it_came():
    assert isinstance(daemon.signal, worker_daemon._Signal)
    before = signal.getsignal(signal.SIGTERM)
    daemon.signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGTERM) == before
    hang_up = signal.getsignal(signal.SIGHUP)
    daemon.signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    signal.signal(signal.SIGHUP, hang_up)
