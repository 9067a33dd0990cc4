"""History from Prometheus: what is asked, what is kept, and what happens where it does not answer."""

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from streaming.console.prometheus import POINTS, Prometheus


@pytest.fixture
def server():
    """One that answers with ``answer``, and notes in ``asked`` what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path, _, query = self.path.partition("?")
            self.server.asked.append((path, dict(urllib.parse.parse_qsl(query))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.server.answer)

        def log_message(self, *_):
            pass

    found = HTTPServer(("127.0.0.1", 0), Handler)
    found.asked, found.answer = [], b""
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    found.address = f"http://127.0.0.1:{found.server_port}/prometheus/"
    yield found
    found.shutdown()
    thread.join(30)
    found.server_close()


def answer(*series):
    found = [{"metric": {}, "values": [[at, value] for at, value in each]} for each in series]
    return json.dumps({"status": "success", "data": {"result": found}}).encode()


def test_a_figure_is_asked_for_once_and_kept_a_while(server):
    server.answer = answer([(1, "2.5"), (2, "3")])
    prometheus = Prometheus(server.address)
    for _ in range(3):
        assert prometheus.history("shop", 'a"b', "out", 3600) == [2.5, 3.0]
    ((path, asked),) = server.asked
    assert path == "/prometheus/api/v1/query_range"
    labels = r'{service="shop",pipeline="a\"b"}'
    assert asked["query"] == f"sum(rate(sequencer_records_delivered_total{labels}[60s]))"
    assert float(asked["end"]) - float(asked["start"]) == 3600
    assert 3600 / int(asked["step"]) == POINTS
    prometheus.history("shop", "p", "out", 3600)
    assert len(server.asked) == 2


@pytest.mark.parametrize("text", [b"", b"[]", b"<html>", b'{"data": {"result": [{}]}}'])
def test_what_is_no_answer_is_none(server, text):
    server.answer = text
    assert Prometheus(server.address).history("s", "p", "in", 600) is None


def test_nothing_known_is_an_empty_line_and_nobody_there_is_none(server):
    server.answer = answer()
    assert Prometheus(server.address).history("s", "p", "held", 600) == []
    assert Prometheus("http://127.0.0.1:9").history("s", "p", "held", 600) is None
