"""`sequencer pack`: everything that workers import is in the archive."""

import subprocess
import sys

import pytest

from streaming.config import load_config
from streaming.errors import ConfigError
from streaming.spark import worker_archive


def packed(*modules):
    """Return the names of the archive's files if workers need these modules."""
    return {name for name, _ in worker_archive._files(worker_archive._imported(modules))}


def test_what_reads_protobuf_is_packed(tmp_path):
    pytest.importorskip("google.protobuf")
    files = worker_archive._files(worker_archive._imported(["streaming.values.protobuf_values"]))
    for name, path in files:
        if name.startswith("google/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).symlink_to(path)
    alone = "import sys; sys.path.append(sys.argv[1]); import google.protobuf.descriptor_pool"
    subprocess.run([sys.executable, "-I", "-S", "-c", alone, tmp_path], check=True, timeout=60)


@pytest.mark.parametrize(
    ("files", "module"),
    [
        (["rules.py"], "rules"),
        (["rules/__init__.py", "rules/labels.py"], "rules.labels"),
        (["rules/labels.py"], "rules.labels"),
        (["rules/deep/__init__.py", "rules/deep/labels.py"], "rules.deep.labels"),
        (["rules/deep/labels.py"], "rules.deep.labels"),
    ],
)
def test_modules_of_custom_labels_are_packed(tmp_path, monkeypatch, files, module):
    for each in files:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(files) <= packed(module)


@pytest.mark.parametrize("name", ["file/workers.tar.gz", "folder"])
def test_an_archive_that_cannot_be_written_is_refused(tmp_path, monkeypatch, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(worker_archive, "_imported", lambda _: {})
    (tmp_path / "orders.toml").write_text('[pipelines.p]\ndiscipline = "channel"\n')
    config = load_config(tmp_path / "orders.toml")
    with pytest.raises(ConfigError, match=r"cannot be written: .*No archive was written"):
        worker_archive.build(config, tmp_path / name)
    assert {each.name for each in tmp_path.iterdir()} == {"file", "folder", "orders.toml"}
