"""The alert rules speak of metrics that the service has, and of entries that the runbook has."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from streaming.service import metrics

ROOT = Path(__file__).parents[1]
PAGE = "docs/operations.md"
RULES = (ROOT / "deploy" / "alerts.yml").read_text()
RUNBOOK = (ROOT / PAGE).read_text()


def source_names():
    """The metrics' names as the service's code has them."""
    text = Path(metrics.__file__).read_text()
    told = re.findall(r'families\.add\("(counter|gauge)", "(\w+)"', text)
    counters = {*metrics.COUNTS, *(name for kind, name in told if kind == "counter")}
    gauges = {*metrics.GAUGES, *(name for kind, name in told if kind == "gauge")}
    return {f"sequencer_{name}_total" for name in counters} | {
        f"sequencer_{name}" for name in gauges
    }


def test_rules_are_about_metrics_that_there_are():
    asked = set(re.findall(r"\bsequencer_\w+", RULES))
    assert asked
    assert asked <= source_names()


def test_every_metric_is_in_the_runbook():
    told = RUNBOOK.replace("`…_", "`sequencer_")
    assert {name for name in source_names() if f"`{name}" not in told} == set()


def test_every_alert_has_an_entry_in_the_runbook():
    alerts = re.findall(r"alert: (\w+)", RULES)
    assert len(alerts) == len(set(alerts)) == 6
    for name in alerts:
        assert f"**{name}**" in RUNBOOK
    headings = {
        re.sub(r"[^a-z ]", "", line[3:].lower()).replace(" ", "-")
        for line in RUNBOOK.splitlines()
        if line.startswith("## ")
    }
    assert set(re.findall(f"runbook: {re.escape(PAGE)}#(\\S+)", RULES)) <= headings


def test_before_any_pipeline_runs_there_is_nothing_to_tell():
    registry = CollectorRegistry()
    registry.register(metrics.Collector("s", []))
    assert list(registry.collect()) == []
    assert metrics.not_ready([]) == "starting"
