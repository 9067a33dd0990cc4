"""The console beside a running service: what waits is seen, released, and seen to be delivered."""

import base64
import http.client
import re
import threading
import urllib.parse

import pytest
import uvicorn

from streaming.config import load_config
from streaming.console.access import Access
from streaming.console.app import Console
from streaming.console.history import Recorder
from streaming.console.listening import bound
from tests.kafka_helpers import Record, create_topics, produce, wait_for_records
from tests.service_helpers import WarmService, channel_topics, status, write_config

pytestmark = pytest.mark.timeout(600)
TOKEN = "a-token-of-the-test"
BAD = b"<script>alert(1)</script>"


class Browser:
    """Asks one console, keeps its cookie, and never follows a redirection."""

    def __init__(self, port):
        self.port = port
        self.cookie = ""

    def __call__(self, path, form=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            given = {"Cookie": self.cookie, **headers}
            body = None if form is None else urllib.parse.urlencode(form)
            connection.request("GET" if form is None else "POST", path, body, given)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if cookie := answer.headers["Set-Cookie"]:
            self.cookie = cookie.partition(";")[0]
        self.answer = answer
        return answer.status, text

    def form_token(self):
        return re.search(r'name="form_token" value="([^"]+)"', self("/")[1])[1]


@pytest.fixture
def started():
    """Gives a function that serves the console of a configuration; all end with the test."""
    ended = []

    def start(config, access):
        recorder, listener = Recorder(load_config(config)), bound(("127.0.0.1", 0))
        app = Console(recorder, access).app(frozenset({"127.0.0.1"}))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        recorder.start()
        thread.start()
        ended.append((server, thread, recorder, listener))
        return Browser(listener.getsockname()[1])

    yield start
    for server, thread, recorder, listener in ended:
        server.should_exit = True
        recorder.stop()
        thread.join(30)
        listener.close()


def channel(key):
    return f"/p/p/channel/{base64.urlsafe_b64encode(key).decode()}"


def labelled(key, *labels):
    return [Record(key, b"<b>%d" % label, [("label", b"%d" % label)]) for label in labels]


def test_a_blocked_channel_is_seen_and_released(broker, topic_prefix, tmp_path, started):
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 2})
    config = write_config(tmp_path, broker.bootstrap, {"p": {"discipline": "channel", **topics}})
    produce(broker.bootstrap, topics["input"], labelled(b"IBM", 1, 0, 0, 3, 5))
    produce(broker.bootstrap, topics["input"], labelled(BAD, 2))
    browser = started(config, Access(TOKEN))
    with WarmService(config) as service:
        service.until(lambda: status(config)["p"]["held"] == 3)
        service.until(lambda: ">2</a>" in browser("/")[1])
        what_waits_is_shown(browser)
        command = {"op": "skip", "channel": base64.urlsafe_b64encode(b"IBM").decode()}
        command["form_token"] = forged_commands_are_refused(browser, command)
        code, page = browser("/p/p/channels", {**command, "dry_run": "1"})
        assert (code, "1 labels would be given up" in page) == (200, True), page
        code, page = browser("/p/p/channels", command)
        assert (code, "A reason is missing" in page) == (400, True), page
        code, page = browser("/p/p/channels", {**command, "why": "lost <i>"})
        assert (code, "1 labels were given up" in page) == (200, True), page
        delivered = wait_for_records(broker.bootstrap, topics["output"], 3)
        assert [int(each.value[3:]) for each in delivered if each.key == b"IBM"] == [0, 1, 3]
        what_happened_is_shown(browser)
        assert service.stop() == 0, service.said()


def what_waits_is_shown(browser):
    code, page = browser("/p/p/blocked")
    assert code == 200
    assert "IBM" in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "form_token" not in page, "nobody is logged in"
    policy = browser.answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    live = browser("/p/p/blocked?q=IBM", **{"x-fragment": "1"})[1]
    assert "<html" not in live
    assert "IBM" in live
    assert "script" not in live
    _, page = browser(channel(b"IBM"))
    assert "Waits for label <strong>2</strong>" in page
    assert page.count('class="mark delivered"') == 4, "two arrivals, two deliveries"
    assert page.count('class="mark held"') == 2
    assert page.count('class="mark rejected"') == 1
    assert "rejected: duplicate" in page


def forged_commands_are_refused(browser, command):
    """Returns the form token of a session that began after that."""
    assert browser("/p/p/channels", {**command, "dry_run": "1"})[0] == 403
    assert browser("/login", {"token": "wrong"})[0] == 403
    assert browser("/login", {"token": TOKEN, "user": "ann"})[0] == 303
    assert "HttpOnly" in browser.answer.headers["Set-Cookie"]
    assert "SameSite=strict" in browser.answer.headers["Set-Cookie"]
    forged = {**command, "form_token": "x", "why": "forged"}
    assert browser("/p/p/channels", forged)[0] == 403
    token = browser.form_token()
    site = {"Origin": "http://evil.example"}
    own = {**command, "why": "forged", "form_token": token}
    assert browser("/p/p/channels", own, **site)[0] == 403
    return token


def what_happened_is_shown(browser):
    _, page = browser("/p/p/events?kind=commands")
    assert "ann" in page
    assert "lost &lt;i&gt;" in page
    assert "forged" not in page
    _, page = browser("/p/p/records?key=IBM&label=3")
    place = re.search(r'href="(/p/p/record/[^"]+)"', page)[1]
    _, page = browser(place)
    assert "&lt;b&gt;3" in page
    assert browser("/p/p/rejects?reason=duplicate")[1].count("/p/p/record/") == 1
    assert "out of order" in browser("/p/p/disorder")[1]


def test_what_a_stranger_may_not_do(broker, topic_prefix, tmp_path, started):
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, dict.fromkeys(topics.values(), 1))
    config = write_config(tmp_path, broker.bootstrap, {"p": {"discipline": "channel", **topics}})
    browser = started(config, Access(TOKEN, is_open=False))
    assert browser("/")[0] == 303, "reading needs a login here"
    browser = started(config, Access())
    assert browser("/", Host="evil.example")[0] == 421
    assert browser("/", Host="127.0.0.1:1")[0] == 200
    assert browser("/p/other/blocked")[0] == 404
    assert browser("/p/p/groups")[0] == 404
    assert browser("/p/p/record/Ly4u")[0] == 404
    assert browser("/p/p/record/%FF%FF")[0] == 404
    assert browser("/p/p/records?topic=__consumer_offsets")[0] == 404
    assert browser("/static/../app.py")[0] == 404
    assert browser("/login", {"token": "x" * 70_000})[0] == 413
    assert browser("/p/p/blocked")[0] == 200, "it has never run"
    assert "Nothing was sent" not in browser("/p/p/events")[1]
