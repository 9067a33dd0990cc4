"""Certificates as files."""

import pytest

from tests.secure_broker import make_certificates, missing


@pytest.fixture(scope="session")
def pem(tmp_path_factory):
    if lacks := missing():
        pytest.skip(f"there is no {lacks} to make certificates with")
    return make_certificates(tmp_path_factory.mktemp("pem") / "certificates")[0]
