"""The page of events: each kind can be asked for, and is shown with all that it says."""

import json
from pathlib import Path

import pytest

from streaming.console import views
from streaming.console.access import Access
from streaming.console.values import link
from streaming.disciplines import DISCIPLINES
from streaming.kafka.newest import Found, Search
from tests.console_helpers import Asking, serving
from tests.service_helpers import channel_topics, write_config

ANSWERS = ("command-done", "command-refused")
KINDS = [(name, kind) for name, each in DISCIPLINES.items() for kind in (*each.events, *ANSWERS)]


@pytest.fixture(scope="module")
def consoles(tmp_path_factory):
    """Asks the console of a service with a pipeline of each discipline, named like it."""
    folder = tmp_path_factory.mktemp("events")
    pipelines = {name: {"discipline": name, **channel_topics(f"{name}.")} for name in DISCIPLINES}
    pipelines["group"]["groups"] = {"G": ["A"]}
    path = Path(write_config(folder, "127.0.0.1:9", pipelines))
    with serving(path, Access()) as port:
        yield Asking(port)


def event(name, kind, number):
    said = {"id": f"id{number}", "at": f"2026-11-24T04:41:0{number}Z", "detail": "<as it came>"}
    place = {"topic": f"{name}.in", "partition": 0, "offset": number}
    value = json.dumps({"event": kind, **said, **place, "by": "ann", "why": "lost"}).encode()
    return Found(f"{name}.events", 0, number, 0, b"K", value, ())


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_each_kind_is_in_the_list_and_shown_alone(consoles, monkeypatch, name, kind):
    events = [event(name, kind, 1), event(name, "another", 2)]

    def search(_config, topics, wanted, _most, **_limits):
        assert topics == [f"{name}.events"]
        return Search([each for each in events if wanted(each)])

    monkeypatch.setattr(views, "search", search)
    code, page = consoles(f"/p/{name}/events")
    assert code == 200
    asked = "commands" if kind in ANSWERS else kind
    assert (f'value="{asked}"' in page) or f"<option>{asked}</option>" in page
    assert f"<td>{kind}</td>" in page
    assert "<td>another</td>" in page
    _, alone = consoles(f"/p/{name}/events?kind={asked}")
    assert f"<td>{kind}</td><td>ann</td><td>lost</td>" in alone
    assert "detail=&lt;as it came&gt;" in alone
    assert "<td>another</td>" not in alone
    about = link(name, f"{name}.in/0@1")
    assert f'<a href="{about}">what it is about</a>' in alone


def test_what_is_about_a_record_of_others_has_no_link(consoles, monkeypatch):
    strange = event("channel", "gap", 1)
    other = Found("channel.events", 0, 3, 0, b"K", b'{"event": "gap", "topic": ["x"]}', ())
    value = strange.value.replace(b"channel.in", b"others.in")
    theirs = Found("channel.events", 0, 2, 0, b"K", value, ())
    monkeypatch.setattr(views, "search", lambda *_, **__: Search([other, theirs]))
    assert "what it is about" not in consoles("/p/channel/events")[1]
