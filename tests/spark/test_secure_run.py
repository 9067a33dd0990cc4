"""The service against a broker that wants TLS and a password: source, sink, progress."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.secure_broker import PASSWORD
from tests.service_helpers import run_once, toml, write_config


@pytest.fixture
def config(secure_broker, topic_prefix, tmp_path):
    """A service that knows the broker by name and password alone; topics named by the prefix."""
    topics = {
        name: topic_prefix + name.removesuffix("put") for name in ("output", "rejects", "events")
    }
    pipeline = {"input": topic_prefix + "in", **topics}
    path = write_config(tmp_path, secure_broker.sasl_ssl, {"p": pipeline})
    properties = {**secure_broker.properties("sasl_ssl"), "sasl.password": "${KAFKA_PASSWORD}"}
    text = path.read_text()
    path.write_text(text.replace("[kafka]\n", f"[kafka]\nproperties = {toml(properties)}\n"))
    create_topics(secure_broker.bootstrap, {topic_prefix + "in": 2})
    return path


def test_ordered_through_tls_and_a_password_that_is_written_nowhere(
    secure_broker, topic_prefix, config
):
    plain = secure_broker.bootstrap
    for label in (2, 0, 1, 1):
        record = Record(b"k", b"%d" % label, [("label", b"%d" % label)])
        produce(plain, topic_prefix + "in", [record])
    said = run_once(config, environment={"KAFKA_PASSWORD": PASSWORD})
    assert [r.value for r in read_all(plain, topic_prefix + "out")] == [b"0", b"1", b"2"]
    rejects = read_all(plain, topic_prefix + "rejects")
    assert [r.header("reject-reason") for r in rejects] == [b"duplicate"]

    assert PASSWORD not in said
    written = [path for path in config.parent.rglob("*") if path.is_file()]
    assert any("checkpoints" in path.parts for path in written)
    assert [path for path in written if PASSWORD.encode() in path.read_bytes()] == []


def test_a_wrong_password_is_named_as_the_reason(config):
    command = [sys.executable, "-m", "streaming.cli", "topics", str(config)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        cwd=Path(__file__).parents[2],
        env={"PATH": "/usr/bin:/bin", "KAFKA_PASSWORD": "another"},
    )
    assert done.returncode == 1
    assert "does not answer (SASL authentication error" in done.stderr
    assert "Traceback" not in done.stderr
