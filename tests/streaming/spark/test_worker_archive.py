"""`sequencer pack`: everything that workers import is in the archive."""

import subprocess
import sys

import pytest

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
