"""Ctrl-C while a session begins, or while the JVM is asked: nobody else takes it, no traceback."""

import logging
import signal

import pytest
from py4j.java_gateway import GatewayClient
from pyspark.core import context

from streaming.spark import ctrl_c


def test_a_session_that_begins_leaves_the_handler_as_it_is():
    before = signal.getsignal(signal.SIGINT)
    with ctrl_c.left_alone():
        context.signal.signal(context.signal.SIGINT, lambda *_: None)  # as a SparkContext does
        assert signal.getsignal(signal.SIGINT) == before
    assert context.signal is signal


def test_py4j_says_nothing_of_a_call_that_was_interrupted(caplog, monkeypatch):
    class Interrupted:
        socket = None

        def send_command(self, _):
            raise KeyboardInterrupt

        def close(self, *_):
            pass

    client = GatewayClient()
    monkeypatch.setattr(client, "_get_connection", Interrupted)
    ctrl_c.hush()
    try:
        with pytest.raises(KeyboardInterrupt):
            client.send_command("c")
        assert caplog.records == []
        logging.error("others do")  # noqa: LOG015  (a filter of the root logger)
        assert [each.getMessage() for each in caplog.records] == ["others do"]
    finally:
        logging.root.removeFilter(ctrl_c._is_of_others)
