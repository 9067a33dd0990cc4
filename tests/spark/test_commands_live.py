"""Commands to a running service: from the command line to the answer, and what changed."""

import json
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streaming.arrow.key_text import key_to_json
from streaming.kafka.ports import free_port
from streaming.service.metrics.figures import METRICS
from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.service_helpers import WarmService, called, channel_topics, status, write_config

SECONDS_MAX = 300  # Spark's start and first batches on two busy cores
pytestmark = pytest.mark.timeout(900)
KEYS = [b"k%d" % n for n in range(300)] + [b"\xff", b""]
RELEASED = len(KEYS) - 2
"""At once, after one was released and one was reset."""


def labelled(key, label):
    return Record(key, b"%d" % label, [("label", str(label).encode())])


def sequencer(*arguments, status=0):
    """What a call of the command line printed."""
    code, out, err = called(*arguments)
    assert code == status, err + out
    return out


def blocked(config):
    """The channels that wait, longest first."""
    found = json.loads(sequencer("status", config, "--blocked", "--json"))["pipelines"]
    return found["p"]["waiting"] if found else []


def lag(config):
    """How many messages the pipeline has not read yet, and how long ago they came."""
    found = json.loads(sequencer("status", config, "--lag", "--json"))["pipelines"]
    return found["p"]["lag"], found["p"]["lag_seconds"]


def ask(address, path):
    """Status and text of an answer."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def scraped(address):
    """All samples: (name, labels) to value."""
    found = text_string_to_metric_families(ask(address, "/metrics")[1])
    return {
        (
            s.name,
            tuple(v for k, v in sorted(s.labels.items()) if k not in ("pipeline", "service")),
        ): (s.value)
        for each in found
        for s in each.samples
    }


def measured(address, name, *labels):
    """The sample of a metric; None where there is none yet."""
    return scraped(address).get((f"sequencer_{name}", labels))


def look_at_metrics(address, service):
    assert ask(address, "/healthz") == (200, "alive\n")
    assert ask(address, "/readyz") == (200, "ready\n")
    assert ask(address, "/none")[0] == 404
    assert measured(address, "records_in_total") == 3 * len(KEYS)
    assert measured(address, "blocked_keys") == len(KEYS)
    assert measured(address, "oldest_held_seconds") > 0
    assert measured(address, "restarts_total") == 0
    assert measured(address, "transactions_total") > 0
    assert measured(address, "latency_seconds_count") == len(KEYS)
    assert measured(address, "latency_seconds_bucket", "+Inf") == len(KEYS)
    assert measured(address, "latency_seconds_sum") > 0
    assert measured(address, "displaced_labels_bucket", "0") == 3 * len(KEYS)
    assert measured(address, "waited_seconds_count") == 0
    assert measured(address, "checkpoint_free_bytes") > 0
    service.until(lambda: measured(address, "lag_records") == 0)
    service.until(lambda: measured(address, "lag_seconds") == 0)


def look_for_every_metric(address, service):
    """After something was rejected and something held was delivered."""
    known = {name: metric.kind for name, metric in METRICS.items()}
    ends = {"counter": "_total", "gauge": "", "histogram": "_count"}
    wanted = {f"sequencer_{name}{ends[kind]}" for name, kind in known.items()}
    service.until(lambda: wanted <= {name for name, _ in scraped(address)})
    assert measured(address, "records_rejected_total", "reset") == 2
    assert (
        measured(address, "records_rejected_total", "late")
        == measured(address, "records_late_total")
        == 1
    )
    assert measured(address, "waited_seconds_count") == RELEASED + 2
    assert measured(address, "state_memory_bytes") > 0
    assert measured(address, "batch_seconds", "triggerExecution") > 0
    assert measured(address, "last_batch_timestamp_seconds") > time.time() - 3600
    others = {name for name, _ in scraped(address)}
    assert {"sequencer_build_info", "process_resident_memory_bytes"} <= others


def judge_topics(bootstrap, topics, out):
    """What came out, was rejected, and told."""
    values = {key: [r.value for r in out if r.key == key] for key in (*KEYS, b"new")}
    assert values[b"\xff"] == [b"0", b"3", b"5"]
    assert values[b"k1"] == [b"0", b"3"]
    assert values[b"new"] == [b"100"]
    assert values[b"k0"] == [b"0", b"0"]
    first, second = (int(r.header("incarnation")) for r in out if r.key == b"k0")
    assert second > first
    assert [r.header("reject-reason") for r in read_all(bootstrap, topics["rejects"])] == [
        b"reset"
    ] * 2 + [b"late"]
    events = [json.loads(r.value) for r in read_all(bootstrap, topics["events"])]
    gaps = [e for e in events if e["event"] == "gap"]
    told = [(json.dumps(e["channel"]), e["from"], e["to"]) for e in gaps]
    wanted = [(json.dumps(key_to_json(key)), 1, 3) for key in KEYS if key != b"k0"]
    wanted += [(json.dumps(key_to_json(b"\xff")), 4, 5), (json.dumps("new"), 0, 100)]
    assert sorted(told) == sorted(wanted), "every gap is announced once"
    assert {e["reason"] for e in gaps} == {"operator"}
    answers = [e for e in events if e["event"].startswith("command-")]
    assert len(answers) == len({e["offset"] for e in answers}) == 6


def judge_account(config):
    counted = status(config)["p"]
    assert counted["in"] == counted["delivered"] + counted["held"] + sum(
        counted["rejected"].values()
    )


def test_blocked_channels_are_found_and_released(broker, topic_prefix, tmp_path):
    roles = ("in", "out", "rejects", "events", "commands")
    topics = {role: f"{topic_prefix}{role}" for role in roles}
    create_topics(broker.bootstrap, {topics["in"]: 2})
    names = {"input": "in", "output": "out"} | {each: each for each in roles[2:]}
    pipelines = {"p": {key: topics[role] for key, role in names.items()}}
    address = f"127.0.0.1:{free_port()}"
    config = write_config(tmp_path, broker.bootstrap, pipelines, metrics=address)
    produce(broker.bootstrap, topics["in"], [labelled(key, n) for key in KEYS for n in (0, 3, 5)])

    with WarmService(config) as service:
        wait_for_records(broker.bootstrap, topics["out"], len(KEYS), limit_s=SECONDS_MAX)
        service.until(lambda: status(config)["p"]["blocked"] == len(KEYS))
        waiting = blocked(config)
        assert {json.dumps(each["channel"]) for each in waiting} == {
            json.dumps(key_to_json(key)) for key in KEYS
        }
        assert {(each["next"], each["held"], each["epoch"]) for each in waiting} == {(1, 2, 0)}
        listed = sequencer("status", config, "--blocked")
        assert f"and {len(KEYS) - 50} more" in listed
        look_at_metrics(address, service)
        dry = json.loads(
            sequencer("skip", config, "--blocked", "0 s", "--dry-run", "--why", "a look", "--json")
        )
        assert (dry["channels"], dry["given_up"], dry["why"]) == (
            len(KEYS),
            2 * len(KEYS),
            "a look",
        )
        one = json.loads(sequencer("skip", config, "--channel-base64", "/w==", "--to", 5, "--json"))
        assert (one["channel"], one["channels"], one["given_up"]) == ({"base64": "/w=="}, 1, 3)
        assert "1 channel, 0 labels given up" in sequencer("reset", config, "--channel", "k0")
        said = sequencer("skip", config, "--blocked", "0 s")
        assert f"{RELEASED} channels, {2 * RELEASED} labels given up" in said
        assert "refused: not-ahead" in sequencer(
            "seed", config, "--channel", "k1", "--label", 4, status=1
        )
        assert "1 channel, 100 labels" in sequencer(
            "seed", config, "--channel", "new", "--label", 100
        )
        produce(broker.bootstrap, topics["in"], [labelled(b"new", 100), labelled(b"k0", 0)])
        out = wait_for_records(
            broker.bootstrap, topics["out"], len(KEYS) + 2 + RELEASED + 2, limit_s=SECONDS_MAX
        )
        assert [each["next"] for each in blocked(config)] == [4] * (len(KEYS) - 2)
        service.until(lambda: lag(config) == (0, 0))
        produce(broker.bootstrap, topics["in"], [labelled(b"new", 7)])
        service.until(lambda: measured(address, "records_late_total") == 1)
        look_for_every_metric(address, service)
        (advice,) = json.loads(sequencer("advise", config, "--json"))["pipelines"].values()
        assert (advice["messages"], advice["out_of_order"]) == (3 * len(KEYS) + 2, 0)
        assert advice["late"] == 1
        assert service.stop() == 0, service.said()
        assert "Traceback" not in service.said()
        said = service.said()
        assert "p: command skip (blocked 0 s" in said  # answered by the driver, for all shards
        assert "p: command seed (channel k1, label 4" in said
        assert ": refused (reason not-ahead, detail " in said
        assert "why a look): done (channels " in said
    judge_topics(broker.bootstrap, topics, out)
    judge_account(config)
    assert "no answer" not in sequencer("verify", config)

    code, _, err = called("skip", config, "--channel", "k1", "--limit", "1")
    assert code == 1
    assert "stands in" in err


@pytest.mark.slow
def test_ten_thousand_channels_are_released_at_once(broker, topic_prefix, tmp_path):
    keys = [b"k%d" % n for n in range(10_000)]
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 2})
    config = write_config(tmp_path, broker.bootstrap, {"p": topics})
    produce(broker.bootstrap, topics["input"], [labelled(key, n) for key in keys for n in (0, 2)])
    words = ("skip", config, "--blocked", "1 s", "--json")
    with WarmService(config) as service:
        service.until(lambda: status(config)["p"]["blocked"] == len(keys))
        service.until(lambda: json.loads(sequencer(*words, "--dry-run"))["channels"] == len(keys))
        answer = json.loads(sequencer(*words))
        assert (answer["channels"], answer["given_up"]) == (len(keys), len(keys))
        out = wait_for_records(broker.bootstrap, topics["output"], 2 * len(keys))
        assert service.stop() == 0, service.said()
    events = [json.loads(r.value) for r in read_all(broker.bootstrap, topics["events"])]
    gaps = sorted((e["channel"], e["from"], e["to"]) for e in events if e["event"] == "gap")
    assert gaps == sorted((key.decode(), 1, 2) for key in keys), "every gap is announced once"
    delivered = {key: [] for key in keys}
    for record in out:
        delivered[record.key].append(record.value)
    assert set(map(tuple, delivered.values())) == {(b"0", b"2")}
