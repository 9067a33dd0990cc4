"""SIGTERM: taken by the driver, again and again; left to it by the JVM and the workers."""

import os
import signal
import subprocess
import sys

from pyspark import daemon

from streaming.spark import worker_daemon
from streaming.stopping import NUMBERS, Stopping


def test_the_first_signal_is_told_and_others_change_nothing(capsys):
    before = [signal.getsignal(number) for number in NUMBERS]
    stopping = Stopping()
    with stopping.listening():
        assert not stopping.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wait(10)  # each is told in a thread of its own, and these may overtake
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
    said = capsys.readouterr().err
    assert said.endswith("SIGTERM: stopping\n")
    assert said.count("\n") == 1
    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_a_running_batch_is_finished_first(capsys):
    stopping = Stopping()
    stopping.busy = True
    stopping._note(signal.SIGINT)
    assert "SIGINT: finishing the running batch" in capsys.readouterr().err


WAITING = """
import os, signal, time
from streaming.stopping import Stopping

stopping = Stopping()
with stopping.listening():
    main = os.getpid()
    sender = os.fork()
    if not sender:  # from another process: it comes at any moment, not just where a lock is let go
        for _ in range(3000):
            os.kill(main, signal.SIGTERM)
            time.sleep(1e-4)
        os._exit(0)
    while not os.waitpid(sender, os.WNOHANG)[0]:
        for _ in range(100):
            stopping.wait(1e-6)
            stopping.clear()
"""


def test_a_signal_at_any_moment_of_a_wait_ends_it():
    """The wait holds the event's lock now and then, in the thread in which handlers run."""
    subprocess.run([sys.executable, "-c", WAITING], timeout=60, check=True, capture_output=True)


def test_workers_leave_sigterm_as_it_came():
    assert isinstance(daemon.signal, worker_daemon._Signal)
    before = signal.getsignal(signal.SIGTERM)
    daemon.signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGTERM) == before
    hang_up = signal.getsignal(signal.SIGHUP)
    daemon.signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    signal.signal(signal.SIGHUP, hang_up)
