"""Where services under fire run: a cluster, an object store; each once for a module."""

import pytest

from tests.cluster import Standalone
from tests.storages import S3, Gs, Hdfs


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Standalone(tmp_path_factory.mktemp("standalone")) as standalone:
        yield standalone


@pytest.fixture(scope="module", params=[S3, Hdfs, Gs], ids=["s3", "hdfs", "gs"])
def storage(request, tmp_path_factory):
    with request.param(tmp_path_factory.mktemp("storage")) as started:
        yield started
