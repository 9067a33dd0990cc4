"""Expressions that only Spark's analyser can refuse: a sentence, and no stack trace."""

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import Service, WarmService, channel_topics, write_config

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize(
    ("kind", "key", "expression", "why"),
    [
        (Service, "label", "foo + 1", "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
        (WarmService, "label", "nosuch(key)", "[UNRESOLVED_ROUTINE]"),
        (WarmService, "channel", "1 +", "[PARSE_SYNTAX_ERROR]"),
        (WarmService, "channel", "explode(array(key, value))", "[UNSUPPORTED_GENERATOR."),
    ],
)
def test_spark_refuses_in_a_sentence(broker, topic_prefix, tmp_path, kind, key, expression, why):
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1})
    config = write_config(tmp_path, broker.bootstrap, {"p": {**topics, key: expression}})
    with kind(config, "--once") as service:
        assert service.wait() == 2, service.said()
        said = service.said()
    assert f"pipelines.p.{key}: Spark does not understand" in said
    assert why in said
    assert "over key, value, topic, partition, offset, timestamp" in said
    for trace in ("Traceback", "stacktrace", "\tat ", "Exception"):
        assert trace not in said


def test_nothing_is_started_and_the_file_can_be_put_right(broker, topic_prefix, tmp_path):
    """Another pipeline does not run meanwhile, and no checkpoint begins with what is refused."""
    topics = {name: channel_topics(f"{topic_prefix}{name}.") for name in ("fine", "wrong")}
    for each in topics.values():
        create_topics(broker.bootstrap, {each["input"]: 1})
        produce(broker.bootstrap, each["input"], [Record(b"K", b"v", [("label", b"0")])])
    for function, status in (("lowr", 2), ("lower", 0)):
        wrong = {**topics["wrong"], "channel": f"{function}(key)"}
        pipelines = {"fine": topics["fine"], "wrong": wrong}
        config = write_config(tmp_path, broker.bootstrap, pipelines)
        with WarmService(config, "--once") as service:
            assert service.wait() == status, service.said()
            assert (status == 0) != ("Nothing was started." in service.said())
        for each in topics.values():
            assert bool(read_all(broker.bootstrap, each["output"])) == (status == 0)
