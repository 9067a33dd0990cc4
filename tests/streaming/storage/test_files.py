"""The service's own way to a checkpoint's files; real storages: `tests/faults`."""

import sys

import pytest

from streaming.errors import ConfigError, StorageUnavailable
from streaming.kafka.ports import free_port
from streaming.storage.files import HADOOP, HDFS_ATTEMPTS, Files, _gs_options, _reason, _s3_options
from tests.service_helpers import called, write_config

AWAY = {f"{HADOOP}{HDFS_ATTEMPTS}": "1"}


def test_a_file_is_replaced_as_a_whole(tmp_path):
    files = Files(str(tmp_path / "checkpoint"), {})
    assert list(files.names()) == []
    for content in (b"one", b"two"):
        files.write("inside/file", content)
        assert files.read("inside/file") == content
    assert list(files.names(recursive=True)) == [("inside", False), ("inside/file", True)]
    files.remove("inside")
    files.remove("inside")
    assert list(files.names()) == []


def test_a_folder_that_cannot_be_written_to_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageUnavailable, match="cannot be used: .*non-directory entry exists"):
        Files(str(tmp_path / "file"), {}).write("status.json", b"")


def test_a_namenode_that_does_not_answer_is_a_sentence(tmp_path):
    where = f"hdfs://localhost:{free_port()}/checkpoints"
    with pytest.raises(StorageUnavailable, match=f"{where} cannot be used: Connection refused"):
        Files(where, AWAY).kind("status.json")
    config = write_config(tmp_path, "localhost:9", {"p": {}}, checkpoint=where)
    text = config.read_text().replace("[spark]", f'[spark]\n"{HADOOP}{HDFS_ATTEMPTS}" = "1"')
    config.write_text(text)
    code, _, said = called("advise", config)
    assert code == 1
    assert said.startswith(f"sequencer: The checkpoint {where}/p cannot be used")


def test_hdfs_without_its_package_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "hdfs_native.fsspec", None)
    with pytest.raises(ConfigError, match=r"pip install 'spark-sequencer\[hdfs\]'"):
        Files("hdfs://name/checkpoints", {})


def test_another_scheme_is_refused():
    with pytest.raises(ConfigError, match=r"Write a folder, or a URI of hdfs://, s3a:// or gs://"):
        Files("ftp://host/checkpoints", {})


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({}, {}),
        ({"endpoint": "http://h:1"}, {"endpoint_override": "h:1", "scheme": "http"}),
        (
            {"endpoint": "https://h", "endpoint.region": "r"},
            {"endpoint_override": "h", "region": "r"},
        ),
        (
            {"endpoint": "h:1", "connection.ssl.enabled": "false", "access.key": "a"},
            {"endpoint_override": "h:1", "scheme": "http", "access_key": "a"},
        ),
    ],
)
def test_s3_as_spark_is_told_of_it(said, options):
    assert _s3_options(said) == options


def test_googles_store_is_where_spark_is_told():
    there = {"storage.root.url": "http://localhost:9/", "auth.type": "UNAUTHENTICATED"}
    options = _gs_options(there)
    assert options.pop("retry_time_limit")
    assert options == {"endpoint_override": "localhost:9", "scheme": "http", "anonymous": True}
    assert set(_gs_options({})) == {"retry_time_limit"}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (r'RPCError("java.io.IOException", "It is full.\n\tat org.apache…")', "It is full"),
        ("Permission denied: user=a\n\tat org.apache…", "Permission denied: user=a"),
        (
            "google::cloud::Status(UNAVAILABLE: No way in. error_info={reason=})",
            "UNAVAILABLE: No way in",
        ),
        ("", "OSError"),
    ],
)
def test_reasons_come_without_traces(said, reason):
    assert _reason(OSError(said)) == reason
