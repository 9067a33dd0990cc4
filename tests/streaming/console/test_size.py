"""How large pages get, whatever there is: a browser has few elements, and looking asks nobody."""

import http.server
import re
import socketserver
import threading
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from streaming.config import load_config
from streaming.console import history, views, waits
from streaming.console.access import Access
from streaming.console.groups_now import GroupsNow
from streaming.kafka.newest import Found, Search
from streaming.service.checkpoint import Checkpoint
from streaming.verify import current
from tests.console_helpers import Asking, serving, told
from tests.kafka_helpers import until
from tests.service_helpers import channel_topics, write_config

TOKEN = "a-token-of-the-test"
ASKED = Counter()
ELEMENTS_MAX = 5_000
"""Of a page; browsers work well with some ten thousand."""
SHARDS, EACH = 10, 1_000
GROUPS = {f"G{n}": [f"s{(n * 3 + each) % 200}" for each in range(60)] for n in range(64)}


class Elements(HTMLParser):
    """Counts the elements of a page, by name."""

    def __init__(self, page):
        super().__init__()
        self.counts = Counter()
        self.feed(page)

    def handle_starttag(self, tag, _attrs):
        self.counts[tag] += 1


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("size")
    (folder / "checkpoints" / "p").mkdir(parents=True)
    pipelines = {
        "p": channel_topics("p."),
        "g": {"discipline": "group", "groups": GROUPS, **channel_topics("g.")},
    }
    return Path(write_config(folder, "127.0.0.1:9", pipelines))


@pytest.fixture
def ask(config):
    with serving(config, Access(TOKEN)) as port:
        asking = Asking(port)
        assert asking("/login", {"token": TOKEN})[0] == 303, "the pages of who may act are larger"
        yield asking


def elements(ask, path):
    code, page = ask(path)
    assert code == 200, page
    return Elements(page).counts


def test_ten_thousand_blocked_channels_are_few_rows(config, ask):
    shards = {
        n: told(*((b"c%d.%d" % (n, each), 0, 5, 1_000, 2) for each in range(EACH)))
        for n in range(SHARDS)
    }
    Checkpoint.of(load_config(config), "p").write_waiting(shards)
    for path in ("/p/p/blocked", "/p/p/blocked?q=c"):
        found = elements(ask, path)
        assert found["tr"] == waits.BLOCKED_SHOWN + 1, path
        assert found.total() < ELEMENTS_MAX, path
    assert "Searched: the 10,000" not in ask("/p/p/blocked?q=c")[1], "all are known"


def test_topics_of_any_length_are_few_rows(ask, monkeypatch):
    headers = tuple((f"h{n}", b"x" * 100) for n in range(100))
    value = b'{"event": "gap", "detail": "%s"}' % (b"x" * 100_000)
    many = [Found("p.in", 0, n, n, b"K" * 1_000, value, headers) for n in range(2_000)]
    monkeypatch.setattr(views, "search", lambda *_, **__: Search(many))
    for view in ("records", "events", "rejects"):
        _, page = ask(f"/p/p/{view}")
        found = Elements(page).counts
        assert found["tr"] == views.RECORDS_SHOWN + 1, view
        assert found.total() < ELEMENTS_MAX, view
        assert len(page) < 300_000, view


def test_sixty_four_groups_fit(ask, monkeypatch):
    listed = {name: current.Listed(0, members) for name, members in GROUPS.items()}
    monkeypatch.setattr(GroupsNow, "of", lambda *_: listed)
    found = elements(ask, "/p/g/groups")
    assert found["tr"] == len(GROUPS) + 1
    assert found.total() < ELEMENTS_MAX
    drawn = Elements(ask("/p/g/groups.svg")[1]).counts
    assert drawn.total() < 4 * ELEMENTS_MAX, "a document of its own, which does not refresh"


class Metrics(http.server.BaseHTTPRequestHandler):
    """The service, which counts what it is asked."""

    def do_GET(self):
        ASKED[self.path] += 1
        body = b'sequencer_lag_records{pipeline="p"} 5\nsequencer_lag_seconds{pipeline="p"} 1\n'
        body += body.replace(b'"p"', b'"g"')
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Broker(socketserver.BaseRequestHandler):
    """Counts connections, and closes them."""

    def handle(self):
        ASKED["the broker"] += 1


def test_who_looks_asks_neither_the_service_nor_kafka(config, monkeypatch):
    """The figures come from files; the service is asked for its metrics now and then, by one thread."""
    monkeypatch.setattr(history, "SLOW_SECONDS", 3_600)
    service = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Metrics)
    broker = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Broker)
    for each in (service, broker):
        threading.Thread(target=each.serve_forever, daemon=True).start()
    text = config.read_text().replace("127.0.0.1:9", f"127.0.0.1:{broker.server_address[1]}")
    metrics = f'[service]\nmetrics = "127.0.0.1:{service.server_address[1]}"'
    own = config.with_name("own.toml")
    own.write_text(re.sub(r"\[service\]", metrics, text, count=1))
    try:
        with serving(own, Access()) as port:
            ask = Asking(port)
            until(lambda: "5 records, 1 s" in ask("/")[1], "the metrics")
            for path in ("/", "/p/p/blocked", "/p/p/blocked?q=c1") * 20:
                assert ask(path, **{"x-fragment": "1"})[0] == 200
    finally:
        for each in (service, broker):
            each.shutdown()
            each.server_close()
    assert ASKED == {"/metrics": 1}
