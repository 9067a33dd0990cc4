"""Recorded input whose channel and label are SQL: Spark works them out for `replay` and `advise`."""

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import channel_topics, warm_json, write_config

FIELDS = {"channel": "substring(key, 1, 1)", "label": "cast(header('n') as int) + 1"}


def test_expressions_are_those_of_each_side(broker, topic_prefix, tmp_path):
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 2})
    sent = [Record(b"x-%d" % n, b"%d" % n, [("n", b"%d" % (n - 1))]) for n in (2, 1, 0)]
    produce(broker.bootstrap, f"{topic_prefix}in", [*sent, Record(b"y", b"no number", [])])
    config = write_config(
        tmp_path, broker.bootstrap, {"p": {**channel_topics(topic_prefix), **FIELDS}}
    )
    label = "label=cast(header('n') as int) * 2 + 2"
    told = warm_json("replay", config, "--set", label, "--prefix", f"{topic_prefix}other.")
    assert told["read"] == 4
    before, after = told["as it is"], told["as set"]
    assert (before["delivered"], before["held"]) == (3, 0)
    assert (after["delivered"], after["held"]) == (1, 2), "labels 0, 2, 4"
    assert before["rejected"] == after["rejected"] == {"missing-label": 1}
    (out,) = read_all(broker.bootstrap, f"{topic_prefix}other.out")
    assert (out.key, out.value) == (b"x-0", b"0")
    (advice,) = warm_json("advise", config, "--measure")["pipelines"].values()
    assert advice["messages"] == 3
