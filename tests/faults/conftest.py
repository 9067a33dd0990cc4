"""Where services under fire run: a cluster, an object store; each once for a module."""

import pytest

from tests.cluster import Standalone
from tests.s3 import Endpoint


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Standalone(tmp_path_factory.mktemp("standalone")) as standalone:
        yield standalone


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    with Endpoint(tmp_path_factory.mktemp("s3")) as started:
        yield started
