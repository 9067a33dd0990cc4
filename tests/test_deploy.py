"""What is in `deploy/`: the image's entry point, the chart as it is rendered, the compose file, the unit."""

import configparser
import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from streaming.config import parse_config
from tests.chart import CHART, rendered

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
KUBERNETES = "1.31"
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://d:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "pod",
    "SPARK_EXECUTOR_MEMORY": "2g",
    "SPARK_HOME": "/spark",
}


def entered(folder, *words, **environment):
    """What the entry point starts: the words of the command, one by one."""
    for name in ("sequencer", "java"):
        tool = folder / name
        tool.write_text(f'#!/bin/sh\necho {name}\nfor word in "$@"; do echo "$word"; done\n')
        tool.chmod(0o755)
    done = subprocess.run(
        [DEPLOY / "entrypoint.sh", *words],
        env={"PATH": f"{folder}:/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_chart_has_the_version_of_the_package():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]


def test_the_entry_point_is_the_command(tmp_path):
    assert entered(tmp_path, "run", "a file.toml") == ["sequencer", "run", "a file.toml"]
    assert entered(tmp_path) == ["sequencer"]


def test_the_entry_point_is_an_executor(tmp_path):
    options = {"SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "-Dd=*"}
    told = entered(tmp_path, "executor", **EXECUTOR, **options)
    assert told[:5] == ["java", "-Da=b c", "-Dd=*", "-Xms2g", "-Xmx2g"]
    assert told[told.index("-cp") + 1] == "/spark/jars/*"
    assert told[told.index("--executor-id") + 1] == "3"
    assert told[told.index("--podName") + 1] == "pod"
    assert "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend" in told


def test_an_executor_has_the_users_jars_first(tmp_path):
    paths = {"SPARK_CLASSPATH": "/b.jar", "SPARK_EXTRA_CLASSPATH": "/a.jar"}
    told = entered(tmp_path, "executor", **EXECUTOR, **paths)
    assert told[told.index("-cp") + 1] == "/a.jar:/b.jar:/spark/jars/*"


def test_the_image_is_as_a_linter_wants_it():
    tool = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [tool, DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout
    text = (DEPLOY / "Dockerfile").read_text()
    assert text.index("USER 10001") < text.index("ENTRYPOINT")


def require_good(objects, spark):
    """Objects that Kubernetes takes, and a file that the service takes."""
    for kind, each in objects.items():
        if kind not in ("PodMonitor", "PrometheusRule"):  # not of Kubernetes itself
            kubernetes_validate.validate(each, KUBERNETES, strict=True)
    file = tomllib.loads(objects["ConfigMap"]["data"]["service.toml"])
    config = parse_config(file, {"HOSTNAME": "orders-1"}, "the chart")
    assert spark.items() <= config.spark.items()
    return config


def test_the_chart_is_as_a_linter_wants_it():
    helm = pytest.importorskip(
        "helm_python", reason="helm-python-sdk has no wheel for this machine"
    )
    found = helm.lint(CHART, strict=True, kube_version=f"v{KUBERNETES}.0")
    assert found["errors"] == []
    assert [each["error"] for each in found["messages"]] == ["icon is recommended"]


def test_the_chart_with_executors():
    objects = rendered(
        "metrics.podMonitor.enabled=true",
        "metrics.prometheusRule.enabled=true",
        "secrets={kafka}",
    )
    config = require_good(
        objects,
        {
            "spark.master": "k8s://https://kubernetes.default.svc",
            "spark.driver.host": "orders-driver.trading.svc",
            "spark.kubernetes.driver.pod.name": "orders-1",
            "spark.executor.instances": "2",
        },
    )
    deployment = objects["Deployment"]["spec"]
    assert deployment["replicas"] == 1
    assert deployment["strategy"] == {"type": "Recreate"}
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] > 60
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["envFrom"] == [{"secretRef": {"name": "kafka"}}]
    assert config.service.metrics.endswith(f":{container['ports'][0]['containerPort']}")
    assert config.service.checkpoint.startswith(container["volumeMounts"][1]["mountPath"])
    service = objects["Service"]
    assert service["spec"]["clusterIP"] == "None"
    assert f"{service['metadata']['name']}.trading.svc" == config.spark["spark.driver.host"]
    monitor = objects["PodMonitor"]["spec"]
    assert monitor["podMetricsEndpoints"][0]["port"] == "metrics"
    assert deployment["template"]["metadata"]["labels"][monitor["jobLabel"]] == "sequencer"
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    assert objects["PrometheusRule"]["spec"] == rules
    console = "metrics.prometheusRule.console=https://console.example"
    moved = rendered("metrics.prometheusRule.enabled=true", console)["PrometheusRule"]
    assert "https://console.example/p/{{ $labels.pipeline }}/blocked" in yaml.safe_dump(moved)
    executor = yaml.safe_load(objects["ConfigMap"]["data"]["executor.yaml"])
    assert executor["spec"]["securityContext"]["fsGroup"] == pod["securityContext"]["fsGroup"]
    template = config.spark["spark.kubernetes.executor.podTemplateFile"]
    assert template == f"{container['volumeMounts'][0]['mountPath']}/executor.yaml"


def test_the_chart_on_an_object_store_and_in_one_pod():
    objects = rendered("executors.count=0", "storage.enabled=false")
    config = require_good(objects, {"spark.driver.memory": "2g"})
    assert "spark.master" not in config.spark
    assert "PersistentVolumeClaim" not in objects
    assert len(objects["Deployment"]["spec"]["template"]["spec"]["volumes"]) == 1


def test_the_chart_mounts_secrets_as_files():
    """In executors, too, which read the files of certificates; what is renewed there is seen."""
    objects = rendered("secretFiles={kafka,registry.ca}")
    config = require_good(
        objects,
        {
            "spark.kubernetes.executor.secrets.kafka": "/run/secrets/kafka",
            "spark.kubernetes.executor.secrets.registry.ca": "/run/secrets/registry.ca",
        },
    )
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    volumes = {each["name"]: each["secret"] for each in pod["volumes"] if "secret" in each}
    names = {name: volume["secretName"] for name, volume in volumes.items()}
    assert names == {"secret-0": "kafka", "secret-1": "registry.ca"}
    modes = {volume["defaultMode"] for volume in volumes.values()}
    assert modes == {0o440}, "the user is of the pod's group"
    mounts = {each["name"]: each for each in pod["containers"][0]["volumeMounts"]}
    for name, secret in names.items():
        path = config.spark[f"spark.kubernetes.executor.secrets.{secret}"]
        assert mounts[name] == {"name": name, "mountPath": path, "readOnly": True}
    assert "envFrom" not in pod["containers"][0]
    alone = require_good(rendered("secretFiles={kafka}", "executors.count=0"), {})
    assert not any("secrets" in name for name in alone.spark)


def test_the_chart_has_the_alerts():
    assert (CHART / "alerts.yml").read_text() == (DEPLOY / "alerts.yml").read_text()


def test_every_value_is_explained():
    lines = (CHART / "values.yaml").read_text().splitlines()
    keys = [at for at, line in enumerate(lines) if re.match(r"\w+:", line)]
    parts = [
        "\n".join(lines[max(0, a - 3) : b]) for a, b in itertools.pairwise([*keys, len(lines)])
    ]
    assert [part for part in parts if "#" in part] == parts


def test_the_compose_file_is_as_its_specification_says():
    tool = Path(sys.executable).with_name("check-jsonschema")
    words = [tool, "--builtin-schema", "vendor.compose-spec", ROOT / "docker-compose.yml"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def test_three_brokers_and_what_is_mounted():
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    services = compose["services"]
    brokers = [each for name, each in services.items() if name.startswith("kafka")]
    assert sorted(each["environment"]["KAFKA_NODE_ID"] for each in brokers) == [1, 2, 3]
    assert all(each["environment"]["KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"] == 2 for each in brokers)
    mounts = [mount for each in services.values() for mount in each.get("volumes", ())]
    for mount in mounts:
        source = mount.partition(":")[0]
        there = (ROOT / source).exists() if source.startswith(".") else source in compose["volumes"]
        assert there, mount
    file = tomllib.loads((DEPLOY / "compose" / "service.toml").read_text())
    config = parse_config(file, {}, "compose")
    kinds = {each.discipline for each in config.pipelines.values()}
    assert kinds == {"channel", "group", "multicast"}
    ivy = (ROOT / "streaming" / "kafka" / "ivy.xml").read_text()
    (tested,) = re.findall(r'name="kafka_2.13" rev="([^"]+)"', ivy)
    assert {each["image"] for each in brokers} == {f"apache/kafka:{tested}"}
    assert all("healthcheck" in each for each in [*brokers, services["sequencer"]])
    scraped = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text())
    (target,) = scraped["scrape_configs"][0]["static_configs"][0]["targets"]
    assert target == f"sequencer:{config.service.metrics.partition(':')[2]}"


def test_the_unit_waits_for_a_clean_stop():
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(DEPLOY / "systemd" / "sequencer@.service")
    service = unit["Service"]
    assert int(service["TimeoutStopSec"]) > 60
    assert service["RestartPreventExitStatus"] == "2"  # of the main process; of no other
    assert "ExecStartPre" not in service
    assert service["ExecStart"].endswith("run /etc/sequencer/%i.toml")


def test_the_unit_keeps_held_records_from_other_users():
    text = (DEPLOY / "systemd" / "sequencer@.service").read_text()
    assert re.findall(r"^(?:UMask|StateDirectoryMode)=(\d+)$", text, re.MULTILINE) == [
        "0750",
        "0027",
    ]
