"""Expressions that only Spark's analyser can refuse: a sentence, and no stack trace."""

import pytest

from tests.kafka_helpers import create_topics
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
