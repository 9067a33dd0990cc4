"""The console of a pipeline that has never run, asked by somebody who may not act."""

from streaming.console.access import Access
from tests.console_helpers import Asking, serving
from tests.kafka_helpers import create_topics
from tests.service_helpers import channel_topics, write_config

TOKEN = "correct-horse-battery"


def test_what_a_stranger_may_not_do(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, dict.fromkeys(topics.values(), 1))
    config = write_config(tmp_path, broker.bootstrap, {"p": {"discipline": "channel", **topics}})
    with serving(config, Access(TOKEN, is_open=False)) as port:
        assert Asking(port)("/")[0] == 303, "reading needs a login here"
    with serving(config, Access()) as port:
        ask = Asking(port)
        assert ask("/", Host="evil.example")[0] == 421
        assert ask("/", Host="127.0.0.1:1")[0] == 200
        assert ask("/p/other/blocked")[0] == 404
        assert ask("/p/p/groups")[0] == 404
        assert ask("/p/p/record/Ly4u")[0] == 404
        assert ask("/p/p/record/%FF%FF")[0] == 404
        assert ask("/p/p/records?topic=__consumer_offsets")[0] == 404
        assert ask("/static/../app.py")[0] == 404
        assert ask("/login", {"token": "x" * 70_000})[0] == 413
        assert ask("/p/p/blocked")[0] == 200, "it has never run"
        assert "Nothing was sent" not in ask("/p/p/events")[1]
