"""The plan of a batch that is done is torn: by a power cut without sync, or by the disk."""

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import WarmService, channel_topics, run_once, write_config

pytestmark = pytest.mark.timeout(600)


def sent(*labels):
    return [Record(b"k", b"%d" % label, [("label", b"%d" % label)], 0) for label in labels]


@pytest.mark.parametrize("which", [-1, -2])
def test_it_is_refused_and_goes_on_with_repeats(broker, topic_prefix, tmp_path, which):
    """Spark reads the last one and the one before it."""
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 1})
    sizes = {"shards": 2, "state_partitions": 2, "sync": False}
    config = write_config(tmp_path, broker.bootstrap, {"p": channel_topics(topic_prefix)}, **sizes)
    for label in range(2):
        produce(broker.bootstrap, f"{topic_prefix}in", sent(label))
        run_once(config)
    plans = tmp_path / "checkpoints" / "p" / "offsets"
    torn = sorted(plans.glob("[0-9]*"), key=lambda each: int(each.name))[which]
    torn.write_bytes(torn.read_bytes()[:9])
    produce(broker.bootstrap, f"{topic_prefix}in", sent(2))
    with WarmService(config, "--once") as service:
        assert service.wait() == 1
        assert "it wrote a batch 1 that is not in the checkpoint" in service.said()
    run_once(config, "--accept-repeats")
    values = [each.value for each in read_all(broker.bootstrap, f"{topic_prefix}out")]
    repeated = [b"0", b"1"][which:]
    assert values == [b"0", b"1", *repeated, b"2"]
