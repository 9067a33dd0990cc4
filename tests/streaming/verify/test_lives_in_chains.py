"""What became of a record that several pipelines write and read, by topics in memory."""

from streaming.config import parse_config
from streaming.verify.lives import Lives
from tests.streaming.verify.lives_worlds import ADDED, NAMES, Seeker, life, worked
from tests.streaming.verify.worlds import Topics


def test_an_input_beside_topics_of_subscribers_is_no_output():
    """Its name begins as theirs do. A command has added one of them, which gets messages, too."""
    topics = Topics(holes=False)
    sent = topics.put("p.in", 0, 100, b"eve", b"v", [NAMES["group"]])
    added = [*ADDED["group"](b"ann", 0), ("sequence", b"0"), ("incarnation", b"7")]
    for name in (b"ann", b"new"):
        topics.put(f"p.{name.decode()}", 0, 100, name, b"v", [*sent.headers, *added])
    settings = {"discipline": "group", "output": "p.{subscriber}"}
    found, one = life(topics, "p.in", 0, 0, **settings)
    assert (found["found_by"], one["state"], len(one["deliveries"])) == ("itself", "delivered", 2)
    for name in ("ann", "new"):
        back, _ = life(topics, f"p.{name}", 0, 0, **settings)
        assert (back["input"]["place"], back["found_by"]) == ("p.in/0@0", "content")


def test_a_record_between_two_pipelines():
    """The second one passes on the header `origin` that the first one added."""
    topics = worked(origin=True)
    middle = next(each for each in topics.all("p.out") if each.header("label") == b"1")
    added = [("sequence", b"0"), ("incarnation", b"9")]
    topics.put("q.out", 0, middle.timestamp, b"k", middle.value, [*middle.headers, *added])
    tables = {"p": {"discipline": "channel", "origin": True}}
    tables["q"] = {"discipline": "channel", "input": "p.out"}
    lives = Lives(parse_config({"pipelines": tables}, {}, "c.toml"), Seeker(topics))
    found = lives.of(("q.out", 0, 0))
    assert (found["input"]["place"], found["found_by"]) == (f"p.out/0@{middle.offset}", "content")
    assert [each["pipeline"] for each in found["pipelines"]] == ["q"]
    found = lives.of(middle.place)
    assert (found["input"]["place"], found["found_by"]) == ("p.in/0@2", "origin")
    states = [(each["pipeline"], each["state"]) for each in found["pipelines"]]
    assert states == [("p", "delivered"), ("q", "delivered")]


def test_another_pipeline_may_read_the_topic_of_a_subscriber_whom_a_command_added():
    """An input that is alike (`m.raw`) is none of them."""
    topics = Topics(holes=False)
    sent = topics.put("m.in", 0, 100, b"eve", b"v", [NAMES["group"]])
    added = [*ADDED["group"](b"new", 0), ("sequence", b"0"), ("incarnation", b"7")]
    topics.put("m.new", 0, 100, b"new", b"v", [*sent.headers, *added])
    topics.put("m.raw", 0, 100, b"eve", b"w", [])
    tables = {"m": {"discipline": "group", "output": "m.{subscriber}"}}
    tables["q"] = {"discipline": "channel", "input": ["m.new", "m.raw"]}
    lives = Lives(parse_config({"pipelines": tables}, {}, "c.toml"), Seeker(topics))
    places = [each["place"] for each in lives.of(sent.place)["pipelines"][0]["deliveries"]]
    assert places == ["m.new/0@0"]
    found = [lives.of((topic, 0, 0)) for topic in ("m.new", "m.raw")]
    assert [each["found_by"] for each in found] == ["content", "itself"]
    assert found[0]["input"]["place"] == "m.in/0@0"
