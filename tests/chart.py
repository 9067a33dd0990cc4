"""The Helm chart, rendered."""

from pathlib import Path

import pytest
import yaml

CHART = Path(__file__).parents[1] / "deploy" / "helm" / "sequencer"


def rendered(*settings):
    """The chart's objects by kind, as Helm renders them."""
    helm = pytest.importorskip(
        "helm_python", reason="helm-python-sdk has no wheel for this machine"
    )
    values = helm.parse_set_string(",".join(settings))
    with helm.Chart.load(CHART) as chart:
        files = chart.render(values, name="orders", namespace="trading")
    objects = [each for file in files.values() for each in yaml.safe_load_all(file) if each]
    return {each["kind"]: each for each in objects}
