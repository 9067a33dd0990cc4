"""The service against a broker that wants TLS and names, and grants what it takes and no more."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import kerberos
from tests.kafka_helpers import Record, produce, read_all
from tests.secure_broker import PASSWORD, add_user
from tests.service_helpers import WarmService, called, run_once, verify
from tests.spark.secured import grant_least, wait_for_rights, write


@pytest.fixture
def config(secure_broker, topic_prefix, tmp_path):
    """By TLS, with a name that has the least rights, its password in a file."""
    user = f"{topic_prefix}least"
    add_user(secure_broker.bootstrap, user)
    (tmp_path / "secret").write_text(PASSWORD + "\n")
    properties = secure_broker.properties("sasl_ssl", user=user)
    path = write(
        secure_broker,
        topic_prefix,
        tmp_path,
        "sasl_ssl",
        {**properties, "sasl.password": f"${{file:{tmp_path}/secret}}"},
    )
    grant_least(secure_broker, user, topic_prefix, tmp_path.name)
    return path


def send_in_disorder(secure_broker, prefix):
    for label in (2, 0, 1, 1):
        record = Record(b"k", b"%d" % label, [("label", b"%d" % label)])
        produce(secure_broker.bootstrap, prefix + "in", [record])


def judge(secure_broker, prefix):
    plain = secure_broker.bootstrap
    assert [r.value for r in read_all(plain, prefix + "out")] == [b"0", b"1", b"2"]
    rejects = read_all(plain, prefix + "rejects")
    assert [r.header("reject-reason") for r in rejects] == [b"duplicate"]


def test_ordered_with_the_least_rights_and_a_password_that_is_written_nowhere(
    secure_broker, topic_prefix, config
):
    send_in_disorder(secure_broker, topic_prefix)
    wait_for_rights(config)
    said = run_once(config)
    judge(secure_broker, topic_prefix)
    code, told = verify(config)
    assert code == 0, told
    said += told
    for words in (
        ("check", config),
        ("check", config, "--json"),
        ("topics", config),
        ("status", config, "--json"),
        ("status", config, "--lag"),
        ("--help",),
        ("run", "--help"),
    ):
        said += "".join(called(*words)[1:])
    assert PASSWORD not in said
    written = [path for path in config.parent.rglob("*") if path.is_file()]
    assert any("checkpoints" in path.parts for path in written)
    known = [path.name for path in written if PASSWORD.encode() in path.read_bytes()]
    assert known == ["secret"]


def test_a_topic_that_may_not_be_seen_for_a_while_is_waited_for(
    secure_broker, topic_prefix, config
):
    """Kafka lists no topic on which a user has no right at all, as if somebody had deleted it."""
    user, out = f"{topic_prefix}least", f"{topic_prefix}out"
    wait_for_rights(config)
    with WarmService(config) as service:
        service.until(lambda: "ready, 1 pipeline running" in service.said())
        secure_broker.withdraw(user, out)
        send_in_disorder(secure_broker, topic_prefix)
        service.until(lambda: f"lacks rights in Kafka: Write on Topic {out}." in service.said())
        secure_broker.grant(user, [(each, "Topic", out) for each in ("Write", "Read")])
        service.until(lambda: len(read_all(secure_broker.bootstrap, out)) == 3)
        assert service.stop() == 0, service.said()
        assert "Nothing was started" not in service.said()
    judge(secure_broker, topic_prefix)


def test_a_password_that_is_renewed_is_read_again(secure_broker, topic_prefix, config):
    wait_for_rights(config)
    secret = config.with_name("secret")
    secret.write_text("")  # being written when the service starts
    with WarmService(config) as service:
        service.until(lambda: "refuses this user (Authentication failed" in service.said())
        secret.write_text(PASSWORD)
        send_in_disorder(secure_broker, topic_prefix)
        service.until(lambda: len(read_all(secure_broker.bootstrap, f"{topic_prefix}out")) == 3)
        service.until(lambda: read_all(secure_broker.bootstrap, f"{topic_prefix}rejects"))
        assert service.stop() == 0, service.said()
    judge(secure_broker, topic_prefix)


def test_an_input_that_may_not_be_seen_is_not_said_to_be_missing(
    secure_broker, topic_prefix, config
):
    wait_for_rights(config)
    secure_broker.withdraw(f"{topic_prefix}least", f"{topic_prefix}in")
    while called("check", config, "--rights")[0] == 0:
        time.sleep(0.2)
    with WarmService(config, "--once") as service:
        assert service.wait() == 1, service.said()
    assert f"lacks rights in Kafka: Read on Topic {topic_prefix}in." in service.said()


def test_ordered_by_a_token(secure_broker, topic_prefix, tmp_path):
    user = f"{topic_prefix}bearer"
    properties = secure_broker.properties("oauth", user=user)
    config = write(secure_broker, topic_prefix, tmp_path, "oauth", properties)
    grant_least(secure_broker, user, topic_prefix, tmp_path.name)
    send_in_disorder(secure_broker, topic_prefix)
    wait_for_rights(config)
    run_once(config)
    judge(secure_broker, topic_prefix)
    code, told = verify(config)
    assert code == 0, told


def test_ordered_by_a_ticket(secure_broker, topic_prefix, tmp_path):
    """By Kerberos, with a keytab: the driver, its workers, and the judge."""
    if lacks := kerberos.missing():
        pytest.skip(f"there is no {lacks} for a realm of Kerberos")
    user = f"{topic_prefix}ticket".replace(".", "-").lower()
    secure_broker.realm.keytab(user)
    properties = secure_broker.properties("kerberos", user=user)
    config = write(secure_broker, topic_prefix, tmp_path, "kerberos", properties)
    grant_least(secure_broker, user, topic_prefix, tmp_path.name)
    send_in_disorder(secure_broker, topic_prefix)
    wait_for_rights(config)
    run_once(config, cold=True)  # its workers know the realm from the start
    judge(secure_broker, topic_prefix)
    code, told = verify(config)
    assert code == 0, told


def test_a_wrong_password_is_named_as_the_reason(config):
    config.with_name("secret").write_text("another")
    command = [sys.executable, "-m", "streaming.cli", "--verbose", "topics", str(config)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        cwd=Path(__file__).parents[2],
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 1
    assert "refuses this user (Authentication failed" in done.stderr
    assert "another" not in done.stderr
