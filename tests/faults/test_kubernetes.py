"""The chart's settings with a real Spark, on an API of Kubernetes that keeps pods and runs none."""

import tomllib

import pytest

from tests.chart import rendered
from tests.cluster import run_on
from tests.faults.clusters import LIMIT_S, Traffic
from tests.kubernetes_api import DRIVER, KubernetesApi
from tests.service_helpers import Service

HERE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.port": "0",
    "spark.driver.blockManager.port": "0",
    "spark.driver.memory": "1g",
    "spark.kubernetes.driver.pod.name": DRIVER,
}
"""Settings that hold in this process, not in a pod of the cluster."""
STARTS = 2


@pytest.fixture
def api():
    with KubernetesApi() as started:
        yield started


@pytest.fixture
def config(broker, api, tmp_path):
    """A service's file with the chart's [spark]."""
    files = rendered("serviceAccount.name=account")["ConfigMap"]["data"]
    template = tmp_path / "executor.yaml"
    template.write_text(files["executor.yaml"])
    spark = tomllib.loads(files["service.toml"])["spark"]
    own = {"spark.master": api.master, "spark.kubernetes.executor.podTemplateFile": str(template)}
    return run_on(Traffic(broker, tmp_path).config, spark | HERE | own)


@pytest.mark.timeout(600)
def test_executors_of_a_driver_that_was_killed_are_in_nobodys_way(api, config):
    for start in range(1, STARTS + 1):
        with Service(config) as service:
            service.until(lambda: len(api.executors) >= 2 * start, LIMIT_S)  # noqa: B023
        for name in api.executors:
            api.fail(name)  # its pod stays as long as the driver's, in which the next one begins
    assert not api.conflicts
    for pod in api.executors.values():
        require_restricted(pod["spec"])
        assert pod["spec"]["serviceAccountName"] == "account"


def require_restricted(spec):
    """What Kubernetes requires of a pod where its Pod Security Standard is `restricted`."""
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
