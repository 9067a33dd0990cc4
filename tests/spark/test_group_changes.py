"""Ten changes of membership a second for a minute, while messages flow."""

import json
import random
import time

import numpy as np
import pytest

from sequencer.simulation.workload import names, zipf_groups
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import WarmService, status, verify, write_config

GROUPS = 64
SUBSCRIBERS = 128
SECONDS = 60
CHANGES_A_SECOND = 10
PUBLISHES_A_SECOND = 200


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_changes_a_second(broker, topic_prefix, tmp_path):
    groups = {
        name: sorted(members)
        for name, members in zipf_groups(
            np.random.default_rng(1), names("s", SUBSCRIBERS), GROUPS
        ).items()
    }
    changing, steady = sorted(groups)[::2], sorted(groups)[1::2]
    roles = ("input", "output", "rejects", "events", "commands")
    topics = {role: f"{topic_prefix}{role}" for role in roles}
    create_topics(broker.bootstrap, {topics["input"]: 2, topics["commands"]: 1})
    pipeline = {"discipline": "group", **topics, "groups": groups}
    config = write_config(tmp_path, broker.bootstrap, {"p": pipeline})
    rng = random.Random(1)
    everyone = names("s", SUBSCRIBERS)
    published = changed = 0
    with WarmService(config) as service:
        begun = time.monotonic()
        while published < PUBLISHES_A_SECOND * SECONDS:
            seconds = min(time.monotonic() - begun, SECONDS)
            commands = [
                {
                    "op": "set",
                    "group": rng.choice(changing),
                    "members": rng.sample(everyone, rng.randint(1, 20)),
                    "id": f"c{number}",
                }
                for number in range(changed, int(CHANGES_A_SECOND * seconds))
            ]
            messages = [
                Record(b"p%d" % (n % 12), b"%d" % n, [("group", rng.choice([*groups]).encode())])
                for n in range(published, int(PUBLISHES_A_SECOND * seconds))
            ]
            lines = [Record(None, json.dumps(command).encode()) for command in commands]
            produce(broker.bootstrap, topics["commands"], lines)
            produce(broker.bootstrap, topics["input"], messages)
            changed += len(commands)
            published += len(messages)
            time.sleep(0.1)
        service.until(lambda: status(config)["p"]["in"] == published)
        assert service.stop() == 0
    code, said = verify(config)
    assert code == 0, said
    answers = [json.loads(r.value) for r in read_all(broker.bootstrap, topics["events"])]
    done = [event["command"] for event in answers if event["event"] == "command-done"]
    assert sorted(done) == sorted(f"c{number}" for number in range(changed))
    assert changed == CHANGES_A_SECOND * SECONDS
    versions = {}
    for record in read_all(broker.bootstrap, topics["output"]):
        group = record.header("group").decode()
        versions.setdefault(group, set()).add(int(record.header("group-version")))
    assert all(len(versions[group]) == 1 for group in steady), "who did not change began anew"
    assert max(len(versions[group]) for group in changing) > SECONDS / 10
