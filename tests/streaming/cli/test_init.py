"""`sequencer init`: a first file that works."""

from __future__ import annotations

import pytest

from streaming.config import load_config
from streaming.kafka.ports import free_port


@pytest.mark.parametrize("discipline", ["channel", "group", "multicast", "label"])
def test_what_it_writes_can_work(here, tmp_path, discipline):
    path = tmp_path / "first.toml"
    nobody = f"127.0.0.1:{free_port()}"
    code, out, err = here("init", path, "--discipline", discipline, "--bootstrap", nobody)
    assert (code, out) == (0, "")
    assert f"Kafka at {nobody} does not answer; it was not asked for its topics." in err
    config = load_config(path, {})
    config.check()
    assert config.pipelines["orders"].discipline == discipline
    assert config.kafka.bootstrap_servers == nobody


def test_every_line_that_is_commented_out_can_work(here, tmp_path):
    path = tmp_path / "first.toml"
    here("init", path, "--bootstrap", f"127.0.0.1:{free_port()}")
    lines = path.read_text().splitlines()
    commented = [line for line in lines if line.startswith("# ") and " = " in line]
    tried = [line for line in commented if line.rstrip().endswith(("}", '"')) or "   #" in line]
    assert len(tried) >= 5
    for line in tried:
        key = line.removeprefix("# ").split(" = ")[0]
        others = [other for other in lines if not other.startswith(f"{key} = ")]
        other_path = tmp_path / "other.toml"
        other_path.write_text("\n".join(
            other.removeprefix("# ") if other == line else other for other in others
        ))  # fmt: skip
        load_config(other_path, {"KAFKA_PASSWORD": "secret"})


def test_inputs_are_looked_for(here, broker, shared, tmp_path):
    path = tmp_path / "first.toml"
    asked = ("--input", shared, "--input", "no-such.in", "--bootstrap", broker.bootstrap)
    code, _, err = here("init", path, *asked)
    assert code == 0
    assert f"pipeline {shared}, input {shared}, no-such.in." in err
    assert "Kafka has no topic no-such.in yet." in err
    assert f"sequencer run {path}" in err
    assert load_config(path, {}).pipelines[shared].input == (shared, "no-such.in")


def test_a_file_that_is_there_stays(here, tmp_path):
    path = tmp_path / "first.toml"
    path.write_text("mine")
    code, _, err = here("init", path)
    assert code == 2
    assert "is there already" in err
    assert path.read_text() == "mine"


def test_a_wrong_name_leaves_no_file(here, tmp_path):
    path = tmp_path / "first.toml"
    code, _, err = here("init", path, "--name", 'a"b', "--bootstrap", f"127.0.0.1:{free_port()}")
    assert code == 2
    assert "cannot name topics" in err
    assert not path.exists()
