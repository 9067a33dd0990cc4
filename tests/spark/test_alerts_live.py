"""Each alert fires on a running service that has what it warns of, asked of a real Prometheus.

Times and thresholds of deploy/alerts.yml are shortened; expressions and labels are its own. Also: a
batch that hangs is seen by /healthz.
"""

import http.client
import json
import re
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from streaming.kafka.ports import free_port
from streaming.service.metrics import figures
from streaming.service.query import Carrier
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import WarmService, channel_topics, status, write_config

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 240
pytestmark = pytest.mark.timeout(900)
FOLDER = "SEQUENCER_TEST_FAULTS"
SHORTER = (
    (r"for: \w+", "for: 0s"),
    (r"> 300", "> 3"),
    (r"> 30\b", "> 0"),
    (r"> 3$", "> 0"),
    (r"\[(5|10|15|30)m\]", "[20s]"),
    (r"\[6h\]", "[20s]"),
)


@contextmanager
def faults_by_files():
    """Batches hang while there is a file "hang", fail while there is "fail"; a disk that fills."""
    import os

    folder = Path(os.environ[FOLDER])
    write, free = Carrier._write, count(10**9, -(10**7))

    def faulty(carrier, frame, batch):
        while (folder / "hang").exists():
            time.sleep(0.1)
        if (folder / "fail").exists():
            raise OSError("a fault of the test")
        return write(carrier, frame, batch)

    def filling(_path):
        return SimpleNamespace(free=next(free))

    with (
        patch.object(Carrier, "_write", faulty),
        patch.object(figures, "shutil", SimpleNamespace(disk_usage=filling)),
    ):
        yield


def service(config, folder):
    within = f"{__name__}:{faults_by_files.__name__}"
    return WarmService(config, within=within, environment={FOLDER: str(folder)})


def get(address, path):
    client = http.client.HTTPConnection(address, timeout=30)
    client.request("GET", path)
    answer = client.getresponse()
    body = answer.read().decode()
    client.close()
    return answer.status, body


def make(folder, broker, prefix, **tables):
    create_topics(broker.bootstrap, {f"{prefix}in": 1})
    address = f"127.0.0.1:{free_port()}"
    pipelines = {"p": channel_topics(prefix)}
    return write_config(folder, broker.bootstrap, pipelines, metrics=address, **tables), address


def send(broker, prefix, *labels):
    rows = [Record(b"k", b"v", [("label", b"%d" % label)]) for label in labels]
    produce(broker.bootstrap, f"{prefix}in", rows)


def test_a_hung_batch_is_not_alive(broker, topic_prefix, tmp_path):
    config, address = make(tmp_path, broker, topic_prefix, hung_after="2 s")
    send(broker, topic_prefix, 0)
    with service(config, tmp_path) as running:
        running.until(lambda: status(config)["p"]["delivered"] == 1)
        running.until(lambda: get(address, "/healthz") == (200, "alive\n"))
        (tmp_path / "hang").touch()
        running.until(lambda: get(address, "/healthz")[0] == 503)
        (tmp_path / "hang").unlink()
        running.until(lambda: get(address, "/healthz")[0] == 200)
        assert running.stop() == 0, running.said()


class Prometheus:
    """A real one, with the rules of deploy/alerts.yml; a context manager."""

    def __init__(self, folder, target):
        rules = (ROOT / "deploy" / "alerts.yml").read_text()
        for old, new in SHORTER:
            rules = re.sub(old, new, rules, flags=re.MULTILINE)
        (folder / "alerts.yml").write_text(rules)
        (folder / "prometheus.yml").write_text(
            "global: { scrape_interval: 1s, evaluation_interval: 1s }\n"
            "rule_files: [alerts.yml]\n"
            "scrape_configs:\n"
            "  - job_name: trading/orders\n"
            f'    static_configs: [{{ targets: ["{target}"] }}]\n'
        )
        self.port = free_port()
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/prometheus",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=(folder / "prometheus.log").open("w"),
            stderr=subprocess.STDOUT,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(60)

    def firing(self, name):
        try:
            url = f"http://127.0.0.1:{self.port}/api/v1/alerts"
            with urllib.request.urlopen(url, timeout=10) as got:
                alerts = json.load(got)["data"]["alerts"]
        except OSError:  # it starts
            return False
        labels = [each["labels"] for each in alerts if each["state"] == "firing"]
        return any(each["alertname"] == name and each.get("pipeline") == "p" for each in labels)


@pytest.mark.slow
def test_every_alert_fires(broker, topic_prefix, tmp_path):
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus on this machine (Debian: apt install prometheus)")
    config, address = make(tmp_path, broker, topic_prefix)
    with Prometheus(tmp_path, address) as prometheus, service(config, tmp_path) as running:

        def until(alert):
            deadline = time.monotonic() + SECONDS_MAX
            while not prometheus.firing(alert):
                assert time.monotonic() < deadline, f"{alert}: {running.said()}"
                time.sleep(0.5)

        send(broker, topic_prefix, 0)
        running.until(lambda: status(config)["p"]["delivered"] == 1)
        until("SequencerCheckpointDiskFills")
        send(broker, topic_prefix, 2)
        until("SequencerChannelBlocked")
        send(broker, topic_prefix, *[0] * 50)
        until("SequencerRejectsJump")
        (tmp_path / "fail").touch()
        running.until(lambda: "Trying again" in running.said())
        (tmp_path / "fail").unlink()
        until("SequencerRestartsAgain")
        (tmp_path / "hang").touch()
        send(broker, topic_prefix, 3)
        until("SequencerBatchHangs")
        (tmp_path / "hang").unlink()
        assert running.stop() == 0, running.said()
        deadline = time.monotonic() + SECONDS_MAX
        while not prometheus.firing("SequencerDown"):  # of which nothing is left to ask
            assert time.monotonic() < deadline
            time.sleep(1)
