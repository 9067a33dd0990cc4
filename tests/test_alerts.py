"""The alert rules speak of metrics that the service has, and of entries that the runbook has."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from streaming.console.pages import PAGES
from streaming.service.metrics.figures import METRICS, Collector
from streaming.service.metrics.lag_watch import LagWatch

ROOT = Path(__file__).parents[1]
PAGE = "docs/operations.md"
RULES = (ROOT / "deploy" / "alerts.yml").read_text()
RUNBOOK = (ROOT / PAGE).read_text()


def full_name(name):
    """As Prometheus shows it; parts of a histogram apart."""
    return f"sequencer_{name}" + "_total" * (METRICS[name].kind == "counter")


def samples(name):
    """What a rule can ask for."""
    parts = ("_bucket", "_sum", "_count") if METRICS[name].kind == "histogram" else ("",)
    return {full_name(name) + part for part in parts}


def test_rules_are_about_metrics_that_there_are():
    asked = set(re.findall(r"\bsequencer_\w+", RULES))
    assert asked
    assert asked <= {sample for name in METRICS for sample in samples(name)}


def test_so_is_the_dashboard():
    panels = json.loads((ROOT / "deploy" / "dashboard.json").read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    known = {sample for name in METRICS for sample in samples(name)}
    for expression in asked:
        names = set(re.findall(r"\bsequencer_\w+", expression))
        assert names, expression
        assert names <= known, expression
        assert expression.count('pipeline=~"$pipeline"') == len(names), expression


def test_the_dashboard_asks_for_labels_that_there_are():
    panels = json.loads((ROOT / "deploy" / "dashboard.json").read_text())["panels"]
    for target in (target for panel in panels for target in panel["targets"]):
        expression = target["expr"]
        names = {name for name in METRICS for each in samples(name) if each in expression}
        known = {
            "service",
            "pipeline",
            "le",
            *(one for name in names for one in METRICS[name].labels),
        }
        asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression))
        for listed in re.findall(r"\b(?:by|without)\s*\(([^)]*)\)", expression):
            asked |= {each.strip() for each in listed.split(",")}
        kept = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert asked | kept <= known, (expression, (asked | kept) - known)


def test_the_runbook_lists_every_metric_with_its_kind_and_labels():
    rows = re.findall(r"^\| `(sequencer_\w+)` \| (\w+) \|(.*?)\| \S.*\|$", RUNBOOK, re.MULTILINE)
    listed = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert listed == {
        full_name(name): (metric.kind, metric.labels) for name, metric in METRICS.items()
    }


def test_every_alert_has_an_entry_in_the_runbook():
    alerts = re.findall(r"alert: (\w+)", RULES)
    assert len(alerts) == len(set(alerts)) == 7
    for name in alerts:
        assert f"**{name}**" in RUNBOOK
    headings = {
        re.sub(r"[^a-z ]", "", line[3:].lower()).replace(" ", "-")
        for line in RUNBOOK.splitlines()
        if line.startswith("## ")
    }
    assert set(re.findall(f"runbook_url: {re.escape(PAGE)}#(\\S+)", RULES)) <= headings


def test_alerts_lead_to_pages_that_the_console_has():
    led = re.findall(r"console_url: http://127\.0\.0\.1:8484(\S.*)", RULES)
    pages = {path.replace("{name}", "{{ $labels.pipeline }}") for path, _ in PAGES}
    assert len(led) == 2
    assert set(led) <= pages


def test_each_alert_fires_and_is_quiet_when_it_should():
    """Also on a running service: tests/spark/test_alerts_live.py."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool on this machine (Debian: apt install prometheus)")
    words = [promtool, "test", "rules", ROOT / "tests" / "rules.yml"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_before_any_pipeline_runs_there_is_nothing_to_tell():
    registry = CollectorRegistry()
    registry.register(Collector("s", [], LagWatch([])))
    assert list(registry.collect()) == []
