"""Which files of Spark's state count: those that the commit log names, whatever else lies there."""

import json
import re
import shutil
import uuid

import pytest

from streaming.disciplines.state_row import FORMATS_READ, STATE_FORMAT
from streaming.spark.snapshots import state_version
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import Service, channel_topics, inspect, run_once, write_config
from tests.warm import warm

pytestmark = pytest.mark.timeout(900)
NAMED = re.compile(r"\d+_[0-9a-f-]{36}\.changelog")
LABELS_EACH = 3
LIMIT_S = 300
OFTEN = """"spark.sql.streaming.stateStore.maintenanceInterval" = "200ms"
"spark.sql.streaming.stateStore.minDeltasForSnapshot" = "2"
"spark.sql.streaming.minBatchesToRetain" = "2"
"""
"""Snapshots of the state, and removing what is before them."""
OTHER_LOG = '"spark.sql.streaming.offsetLog.formatVersion" = "2"\n'
OTHER_DEFAULT = '"spark.hadoop.fs.defaultFS" = "hdfs://127.0.0.1:9"\n'


def pipeline(broker, folder, prefix):
    create_topics(broker.bootstrap, {f"{prefix}in": 2})
    return write_config(folder, broker.bootstrap, {"p": channel_topics(prefix)})


def order(broker, config, prefix, part, **how):
    """Send some messages of each channel, and let the service order them."""
    labels = range(LABELS_EACH * part, LABELS_EACH * (part + 1))
    rows = [
        Record(b"k%d" % key, b"v", [("label", b"%d" % n)])
        for n in reversed(labels)
        for key in range(9)
    ]
    produce(broker.bootstrap, f"{prefix}in", rows)
    run_once(config, **how)
    found = read_all(broker.bootstrap, f"{prefix}out")
    wanted = [b"%d" % n for n in range(LABELS_EACH * (part + 1))]
    for key in range(9):
        own = [each.header("sequence") for each in found if each.key == b"k%d" % key]
        assert own == wanted, key


def states(root):
    """The files of state that counts, by folder and version."""
    return sorted((root / "state").rglob("*.changelog"))


def test_a_late_attempt_s_state_is_not_read(broker, topic_prefix, tmp_path):
    """As it would be left by a task that stood still before it wrote its state."""
    config = pipeline(broker, tmp_path, topic_prefix)
    root = tmp_path / "checkpoints" / "p"
    order(broker, config, topic_prefix, 0)
    early = states(root)
    order(broker, config, topic_prefix, 1)
    late = [each for each in states(root) if each not in early]
    assert all(NAMED.fullmatch(each.name) for each in late)
    for each in late:
        (before,) = (old for old in early if old.parent == each.parent)
        version = each.name.partition("_")[0]
        shutil.copy(before, each.with_name(f"{version}_{uuid.uuid4()}.changelog"))
    order(broker, config, topic_prefix, 2)


def test_a_checkpoint_of_the_older_format_goes_on_and_moves(broker, topic_prefix, tmp_path):
    """As release 1.0.0 made them: Spark names states by their batch alone."""
    config = pipeline(broker, tmp_path, topic_prefix)
    root = tmp_path / "checkpoints" / "p"
    other = tmp_path / "other"
    other.mkdir()
    run_once(write_config(other, broker.bootstrap, {"p": channel_topics(topic_prefix)}))
    identity = json.loads((other / "checkpoints" / "p" / "identity.json").read_text())
    assert identity["format"] == STATE_FORMAT
    older = min(FORMATS_READ)
    root.mkdir(parents=True)
    (root / "identity.json").write_text(json.dumps({**identity, "format": older}))
    order(broker, config, topic_prefix, 0)
    order(broker, config, topic_prefix, 1)
    assert {each.name for each in states(root)} <= {f"{n}.changelog" for n in range(1, 9)}
    assert len(inspect(config)["channels"]) == 9
    new = tmp_path / "new"
    shards, partitions = (str(identity[each]) for each in ("shards", "state_partitions"))
    asked = ["--shards", shards, "--state-partitions", partitions, "--to", str(new)]
    moved = warm().call("rescale", str(config), *asked)
    assert moved.poll(LIMIT_S) == 0, moved.said()
    config = write_config(
        tmp_path, broker.bootstrap, {"p": channel_topics(topic_prefix)}, checkpoint=str(new)
    )
    order(broker, config, topic_prefix, 2)
    assert all(NAMED.fullmatch(each.name) for each in states(new / "p"))
    assert json.loads((new / "p" / "identity.json").read_text())["format"] == STATE_FORMAT


def test_a_snapshot_that_a_power_cut_tore_is_passed_over(broker, topic_prefix, tmp_path):
    """Spark uploads it between batches, before anything is synced; changes of before are gone."""
    config = pipeline(broker, tmp_path, topic_prefix)
    config.write_text(config.read_text().replace("[spark]\n", f"[spark]\n{OFTEN}"))
    root = tmp_path / "checkpoints" / "p"
    parts = iter(range(100))
    with Service(config) as service:
        while not is_purged(root):
            order_live(broker, topic_prefix, next(parts), service)
        service.stop()
    torn = [newest.with_suffix(".zip") for newest in newest_changes(root)]
    for each in torn:
        each.write_bytes(b"")
        each.with_name(f".{each.name}.crc").unlink(missing_ok=True)
    order(broker, config, topic_prefix, next(parts))
    assert not any(each.exists() for each in torn)


def test_a_folder_has_one_name_under_every_locale(broker, topic_prefix, tmp_path):
    """Java under LC_ALL=C has no letter beyond ASCII."""
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 2})
    root = tmp_path / "f\N{LATIN SMALL LETTER U WITH DIAERESIS}r"
    topics = {"p": channel_topics(topic_prefix)}
    config = write_config(tmp_path, broker.bootstrap, topics, checkpoint=str(root))
    order(broker, config, topic_prefix, 0, cold=True, environment={"LC_ALL": "C"})
    order(broker, config, topic_prefix, 1)
    assert states(root / "p")
    assert not [each for each in tmp_path.iterdir() if "?" in each.name]


def order_live(broker, prefix, part, service):
    labels = range(LABELS_EACH * part, LABELS_EACH * (part + 1))
    rows = [Record(b"k%d" % key, b"v", [("label", b"%d" % n)]) for key in range(9) for n in labels]
    produce(broker.bootstrap, f"{prefix}in", rows)
    wanted = 9 * labels.stop
    service.until(lambda: len(read_all(broker.bootstrap, f"{prefix}out")) == wanted, LIMIT_S)


def newest_changes(root):
    """The last version's changes of each partition."""
    found = {}
    for each in states(root):
        found.setdefault(each.parent, []).append((state_version(each.name), each))
    return [max(some)[1] for some in found.values()]


def is_purged(root):
    """Whether each partition has a snapshot, and no changes of its first version any more."""
    return bool(states(root)) and all(
        list(newest.parent.glob("*.zip")) and not list(newest.parent.glob("1_*.changelog"))
        for newest in newest_changes(root)
    )


def test_the_offset_log_has_the_format_that_is_read_here(broker, topic_prefix, tmp_path):
    """Another one would look like files that a power cut left torn, and be removed."""
    config = pipeline(broker, tmp_path, topic_prefix)
    config.write_text(config.read_text().replace("[spark]\n", f"[spark]\n{OTHER_LOG}"))
    produce(broker.bootstrap, f"{topic_prefix}in", [Record(b"k", b"v", [("label", b"0")])])
    said = run_once(config, cold=True)
    assert "offsetLog.formatVersion = 2 is ignored" in said
    offsets = tmp_path / "checkpoints" / "p" / "offsets" / "0"
    assert offsets.read_text().startswith("v1\n")


def test_a_folder_is_one_whatever_hadoop_s_default_is(broker, topic_prefix, tmp_path):
    """Where nothing listens: had Spark its files there, it would not find the service's own."""
    config = pipeline(broker, tmp_path, topic_prefix)
    config.write_text(config.read_text().replace("[spark]\n", f"[spark]\n{OTHER_DEFAULT}"))
    produce(broker.bootstrap, f"{topic_prefix}in", [Record(b"k", b"v", [("label", b"0")])])
    run_once(config, cold=True)
    assert len(read_all(broker.bootstrap, f"{topic_prefix}out")) == 1
