"""The console beside a running service: by requests, and as somebody sees it in a browser."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from streaming.console.access import Access
from streaming.console.actions import REASONS
from streaming.kafka.ports import free_port
from tests import browser
from tests.console_helpers import Asking, code_of, serving
from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.service_helpers import WarmService, channel_topics, status, write_config
from tests.spark.console_answers import (
    BAD,
    TOKEN,
    forged_commands_are_refused,
    others_are_asked_for_and_done,
    what_happened_is_shown,
    what_waits_is_shown,
)

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(600)
ALERTED = {"wide": b"AAPL", "phone": b"MSFT"}
seen = pytest.mark.skipif(bool(browser.missing()), reason=browser.missing())


def labelled(key, *labels):
    return [Record(key, b"<b>%d" % label, [("label", b"%d" % label)]) for label in labels]


@pytest.fixture(scope="module")
def shop(broker, tmp_path_factory):
    """A service with channels and groups, of which some wait, and its console; for all tests here."""
    folder = tmp_path_factory.mktemp("console")
    prefix = f"{folder.name}-{free_port()}."
    topics, groups = channel_topics(prefix), channel_topics(prefix + "g.")
    create_topics(broker.bootstrap, {topics["input"]: 2, groups["input"]: 1})
    members = {"G0": ["A", "B", "C"], "G1": ["B", "C", "D"]}
    pipelines = {"p": topics, "g": {"discipline": "group", "groups": members, **groups}}
    metrics = f"127.0.0.1:{free_port()}"
    config = write_config(folder, broker.bootstrap, pipelines, metrics=metrics)
    for key in (b"IBM", b"SAP", b"ORCL", *ALERTED.values()):
        produce(broker.bootstrap, topics["input"], labelled(key, 1, 0, 0, 3, 5))
    produce(broker.bootstrap, topics["input"], labelled(BAD, 2))
    said = [Record(b"s", b"%d" % n, [("group", b"G%d" % (n % 2))]) for n in range(6)]
    produce(broker.bootstrap, groups["input"], said)
    found = SimpleNamespace(config=config, topics=topics, groups=groups, broker=broker.bootstrap)
    with serving(config, Access(TOKEN)) as found.port, WarmService(config) as found.service:
        found.service.until(lambda: status(config)["p"]["held"] == 11)
        found.service.until(lambda: status(config)["g"]["delivered"] == 18)
        ask = Asking(found.port)
        found.service.until(lambda: ">6</a>, the longest" in ask("/")[1])
        yield found
        if found.service.poll() is None:
            assert found.service.stop() == 0, found.service.said()


@pytest.fixture
def page(shop):
    """Somebody's browser, at the console."""
    with browser.opened(f"http://127.0.0.1:{shop.port}") as opened:
        yield opened
        assert opened.said == []


def values_of(shop, key):
    found = read_all(shop.broker, shop.topics["output"])
    return [int(each.value[3:]) for each in found if each.key == key]


def test_a_blocked_channel_is_seen_and_released(shop):
    ask = Asking(shop.port)
    what_waits_is_shown(ask)
    command = {"op": "skip", "channel": code_of(b"IBM")}
    command["form_token"] = forged_commands_are_refused(ask, command)
    code, page = ask("/p/p/channels", {**command, "dry_run": "1"})
    assert (code, "1 label would be given up" in page) == (200, True), page
    code, page = ask("/p/p/channels", command)
    assert (code, "A reason is missing" in page) == (400, True), page
    code, page = ask("/p/p/channels", {**command, "why": "lost <i>"})
    assert (code, "1 label was given up" in page) == (200, True), page
    wait_for_records(shop.broker, shop.topics["output"], 7)
    assert values_of(shop, b"IBM") == [0, 1, 3]
    what_happened_is_shown(ask)
    others_are_asked_for_and_done(ask, command["form_token"])


@seen
def test_from_a_blocked_channel_to_its_delivery_in_a_browser(shop, page):
    page.goto("/")
    page.get_by_role("link", name="Log in to act").click()
    page.get_by_label("Your name").fill("bob")
    page.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("region", name="p channel").get_by_role("link", name="p", exact=True).click()
    page.get_by_role("link", name="SAP").click()
    assert "Waits for label 2" in page.inner_text("main")
    page.get_by_role("button", name="Show the effect").click()
    assert "1 label would be given up" in page.inner_text("main")
    assert values_of(shop, b"SAP") == [0, 1], "a dry run gives nothing up"
    page.get_by_label("Another reason").fill("the sender lost it")
    page.get_by_role("button", name="Release", exact=True).click()
    assert "1 label was given up" in page.inner_text("main")
    page.get_by_role("link", name="To the channel").click()
    page.get_by_role("link", name="label 3, sequence 2").wait_for()
    assert "Waits for label 4" in page.inner_text("main")
    assert values_of(shop, b"SAP") == [0, 1, 3]


@seen
def test_a_record_is_found_by_its_key_and_followed(shop, page):
    page.goto("/p/p/records")
    page.get_by_label("Key").fill("ORCL")
    page.get_by_label("Label").fill("1")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Records").get_by_role("link").click()
    assert "<b>1" in page.inner_text("main")
    page.get_by_role("link", name="Its channel, with lanes").click()
    lanes = page.get_by_role("region", name="Lanes")
    assert lanes.get_by_role("link").count() == 7, "five arrivals, two deliveries"
    lanes.get_by_role("link", name="label 1, sequence 1").click()
    assert "<b>1" in page.inner_text("main")
    assert shop.topics["output"] in page.inner_text("h1"), "the delivery"


@seen
def test_a_group_is_added_and_its_overlaps_are_drawn(page):
    log_in(page)
    page.goto("/p/g/groups")
    before = height_of_picture(page)
    page.get_by_label("Group", exact=True).fill("G2")
    page.get_by_role("textbox", name="Members").fill("A, B, D")
    page.get_by_role("button", name="Show the effect").click()
    shown = page.inner_text("main")
    assert "It has 3 members then." in shown
    assert "Overlaps that begin, with the number 0: G0 + G2, G1 + G2." in shown
    page.get_by_role("img", name="as they would be then").wait_for()
    assert browser.barriers(page) == []
    page.get_by_label("Why").fill("a new desk")
    page.get_by_role("button", name="Add G2").click()
    assert "add" in page.inner_text("main")
    page.goto("/p/g/groups")
    assert "G2" in page.get_by_role("region", name="Members").inner_text()
    assert height_of_picture(page) > before, "one more lane"
    drawn = page.frame_locator("main iframe")
    drawn.locator("a", has_text="G1").locator("text").first.click()
    page.wait_for_url("**/group/**")
    assert page.inner_text("h1") == "Group G1", "a click in the picture leads to the group"
    assert page.get_by_role("region", name="Lanes").get_by_role("link").count() == 6
    page.get_by_role("link", name="C", exact=True).click()
    lanes = page.get_by_role("region", name="Lanes")
    assert lanes.get_by_role("link", name="sequence 5").count() == 1, "six of both groups"
    assert lanes.locator("line").count() == 6, "each matched with its arrival"


def height_of_picture(page):
    """Of the groups as they are."""
    return int(page.locator("main iframe").get_attribute("height"))


def log_in(page):
    page.goto("/login")
    page.get_by_label("Your name").fill("bob")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()


@seen
def test_a_group_that_others_add_appears(shop, page):
    page.goto("/p/g/groups")
    before = height_of_picture(page)
    ask = Asking(shop.port)
    ask("/login", {"token": TOKEN, "user": "ann"})
    added = {"op": "add", "group": "G7", "members": "A", "why": "x", "form_token": ask.form_token()}
    assert ask("/p/g/group", added)[0] == 200
    page.get_by_role("region", name="Members").get_by_role("link", name="G7").wait_for()
    assert height_of_picture(page) > before
    for op, who, effect in (
        ("join", "D", "New in it: D."),
        ("leave", "A", "Not in it any more: A."),
        ("remove", "", "The group ends. 1 member"),
    ):
        form = {**added, "op": op, "members": who}
        assert effect in ask("/p/g/group", {**form, "dry_run": "1"})[1]
        assert "<h1>Done</h1>" in ask("/p/g/group", form)[1]


@seen
@pytest.mark.parametrize("window", ["wide", "phone"])
def test_from_an_alert_to_a_released_channel_in_three_clicks(shop, page, window):
    """As somebody who has a session does it; the alert is a page of another site."""
    log_in(page)
    page.set_viewport_size(browser.PHONE if window == "phone" else browser.WIDE)
    key = ALERTED[window].decode()
    (led, *_) = re.findall(r"console_url: (\S.*)", (ROOT / "deploy" / "alerts.yml").read_text())
    at = led.replace("{{ $labels.pipeline }}", "p").replace("8484", str(shop.port))
    alert = f'<p>SequencerChannelBlocked <a href="{at}">console_url</a></p>'
    page.route(
        "http://alerts.example/", lambda route: route.fulfill(body=alert, content_type="text/html")
    )
    page.goto("http://alerts.example/")

    page.get_by_role("link", name="console_url").click()
    assert page.inner_text("h1") == "Blocked channels"
    button = page.get_by_role("button", name=f"Release {key}")
    box = button.bounding_box()
    assert box["x"] + box["width"] <= page.viewport_size["width"], (
        "seen without scrolling sidewards"
    )
    button.click()
    assert "1 label would be given up: 2." in page.inner_text("main")
    assert browser.barriers(page) == []
    if window == "wide":
        why = REASONS[0]
        page.get_by_role("button", name=f"Release: {why}").click()
    else:
        why = "the sender lost it"
        page.keyboard.type(why)
        page.keyboard.press("Enter")

    page.get_by_text("1 label was given up").wait_for()
    page.get_by_role("link", name="label 3, sequence 2").wait_for()
    lanes = page.get_by_role("region", name="Lanes")
    beyond = "lanes => lanes.scrollWidth - lanes.clientWidth - lanes.scrollLeft"
    assert lanes.evaluate(beyond) < 2, "the newest are in view"
    assert browser.barriers(page) == []
    assert values_of(shop, key.encode()) == [0, 1, 3]
    page.goto(f"/p/p/events?kind=commands&text={key}")
    assert why in page.get_by_role("region", name="Events").inner_text()
    page.goto("/p/p/events?kind=commands")
    assert why in page.get_by_role("row").filter(has_text=key).first.inner_text()


@seen
def test_every_view_can_be_used_by_everybody(page):
    log_in(page)
    channel = f"/p/p/channel/{code_of(b'ORCL')}"
    group, reader = f"/p/g/group/{code_of(b'G0')}", f"/p/g/subscriber/{code_of(b'A')}"
    own = [f"/p/p/{view}" for view in ("blocked", "disorder", "records", "events", "rejects")]
    for path in (
        "/",
        channel,
        *own,
        "/p/g/groups",
        "/p/g/blocked",
        group,
        reader,
        "/login",
        "/p/p/none",
    ):
        page.set_viewport_size(browser.WIDE)
        page.emulate_media(color_scheme="light")
        page.goto(path)
        assert browser.barriers(page) == [], path
        page.set_viewport_size(browser.PHONE)
        page.emulate_media(color_scheme="dark")
        assert browser.barriers(page, "color-contrast") == [], path
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{path} is wider than a phone by {wide} pixels"


@seen
def test_the_keyboard_leads_everywhere(page):
    page.goto("/p/p/blocked")
    names = []
    for _ in range(20):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.innerText"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"{names[-1]!r} does not show that it has the focus"
        if names[-1] == "ORCL":
            break
    assert names[0] == "To the content"
    assert names[1:7] == ["console0", "Blocked", "Disorder", "Records", "Events", "Rejects"]
    page.keyboard.press("Enter")
    page.wait_for_url("**/channel/**")


@seen
def test_acting_without_a_token_is_refused(shop, page):
    page.goto(f"/p/p/channel/{code_of(b'ORCL')}")
    assert page.get_by_role("button").count() == 0, "nothing to press"
    body = {"op": "skip", "channel": code_of(b"ORCL"), "why": "x", "form_token": "x"}
    assert page.request.post("/p/p/channels", form=body).status == 403
    page.get_by_role("link", name="Log in", exact=True).click()
    page.get_by_label("Token").fill("not the token")
    page.get_by_role("button", name="Log in").click()
    assert "That is not the token." in page.get_by_role("alert").inner_text()
    assert page.request.post("/p/p/channels", form=body).status == 403
    assert values_of(shop, b"ORCL") == [0, 1]


@seen
def test_a_reject_is_looked_at_and_sent_back_then_all_of_its_reason(shop, page):
    log_in(page)
    page.goto("/p/p/rejects")
    page.get_by_role("link", name="duplicate").click()
    page.get_by_role("region", name="Rejects").get_by_role("link").first.click()
    assert "Rejected as duplicate; it came in as" in page.inner_text("main")
    assert browser.barriers(page) == []
    page.get_by_role("button", name="Send it back").click()
    assert counted_to_send(page, "What would be sent") == 1
    assert browser.barriers(page) == []
    page.get_by_role("button", name="Send them").click()
    assert counted_to_send(page, "Sent") == 1
    page.get_by_role("link", name="To the rejects").click()
    page.get_by_role("link", name="duplicate").click()
    page.get_by_role("button", name="Send all of").click()
    assert counted_to_send(page, "What would be sent") == 4, "one was sent before"
    page.get_by_role("button", name="Send them").click()
    assert counted_to_send(page, "Sent") == 4
    wait_for_records(shop.broker, shop.topics["rejects"], 11)


def counted_to_send(page, title):
    assert page.inner_text("h1") == title
    row = page.get_by_role("row", name="duplicate")
    return int(row.get_by_role("cell").nth(1).inner_text())


@seen
def test_a_service_that_stops_is_said_to_have_stopped_until_it_is_back(shop, page):
    page.goto("/")
    state = page.get_by_role("region", name="p channel").locator(".state")
    state.filter(has_text="runs").wait_for()
    assert shop.service.stop() == 0, shop.service.said()
    state.filter(has_text="does not run").wait_for()
    page.get_by_text(re.compile(r"It said last, at \S+Z: Stopped in order\.")).first.wait_for()
    shop.service = WarmService(shop.config)
    state.filter(has_text="runs").wait_for()
