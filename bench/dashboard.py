"""A picture of deploy/dashboard.json without Grafana: its queries, asked of a real Prometheus.

A broker, a service with two pipelines and a load that is out of order run for a while beside a
Prometheus (its program is wanted: --prometheus, or on the PATH) that has the alert rules of
deploy/alerts.yml. Then each panel's queries are asked as Grafana would, and drawn. A query that
finds nothing is a fault.

The load: orders (gaps are skipped after 3 s) with a message in ten late by up to 2 s, one in a
thousand by 6 s, one in a hundred twice; trades (gaps are waited for) in order, of which ten
channels lose a message and are released by `sequencer skip` in the last third.
"""

import argparse
import contextlib
import heapq
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Producer
from harness import create
from matplotlib.dates import AutoDateLocator, DateFormatter
from matplotlib.figure import Figure
from service import COMMAND, ended, running

from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.ports import free_port

ROOT = Path(__file__).parents[1]
DASHBOARD = ROOT / "deploy" / "dashboard.json"
RATES = {"orders": 500, "trades": 150}
CHANNELS = 100
SCRAPED_SECONDS = 2
LOST, BLOCKED_SECONDS, WARM_TURNS = 10, 6, 40
UNITS = {"reqps": "1/s", "s": "s", "bytes": "MiB", "short": ""}
SCALE = {"bytes": 2**20}


def write_config(folder, bootstrap, port):
    pipelines = {"orders": 'gap = { policy = "skip", after = "3 s" }', "trades": ""}
    tables = "".join(
        f'[pipelines.{name}]\ndiscipline = "channel"\n{more}\n' for name, more in pipelines.items()
    )
    path = folder / "shop.toml"
    path.write_text(
        f'[service]\nname = "shop"\ncheckpoint = "{folder}/checkpoints"\n'
        f'metrics = "127.0.0.1:{port}"\n[kafka]\nbootstrap_servers = "{bootstrap}"\n'
        f'[spark]\n"spark.master" = "local[2]"\n{tables}'
    )
    return path


def load(bootstrap, seconds):
    """Send for so long, in real time; each message when it is due."""
    chance = random.Random(7)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    due, began, number = [], time.monotonic(), dict.fromkeys(RATES, 0)
    while (now := time.monotonic() - began) < seconds:
        for name, rate in RATES.items():
            while number[name] < rate * now:
                label, channel = divmod(number[name], CHANNELS)
                number[name] += 1
                for at in moments(chance, name, channel, number[name] / rate, seconds):
                    heapq.heappush(due, (at, name, channel, label))
        while due and due[0][0] <= now:
            _, name, channel, label = heapq.heappop(due)
            headers = [("label", b"%d" % label)]
            producer.produce(
                f"{name}.in", bytes(100), b"%s%d" % (name.encode(), channel), headers=headers
            )
        producer.poll(0.02)
    assert producer.flush(60) == 0


def moments(chance, name, channel, at, seconds):
    """When a message is sent: late, twice, never."""
    if name == "trades":
        lost = channel < LOST and abs(at - seconds / 3) < CHANNELS / RATES[name] / 2
        return [] if lost else [at]
    kind = chance.random()
    if kind < 0.001:
        return [at + 6]
    if kind < 0.1:
        return [at + chance.random() * 2]
    return [at, at] if kind < 0.11 else [at]


@contextlib.contextmanager
def prometheus(program, folder, port, service_port):
    settings = folder / "prometheus.yml"
    settings.write_text(
        f"global: {{scrape_interval: {SCRAPED_SECONDS}s, evaluation_interval: 2s}}\n"
        f"rule_files: [{ROOT}/deploy/alerts.yml]\n"
        "scrape_configs:\n- job_name: sequencer\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{service_port}']}}]\n"
    )
    words = [
        program,
        f"--config.file={settings}",
        f"--storage.tsdb.path={folder}/tsdb",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with ended(words, folder / "prometheus.log"):
        yield


def asked(port, path, **words):
    query = urllib.parse.urlencode(words)
    with urllib.request.urlopen(
        f"http://127.0.0.1:{port}/api/v1/{path}?{query}", timeout=30
    ) as got:
        return json.load(got)["data"]


def series(port, target, begin, end):
    """Legend, times and values of each series that a panel's query gives."""
    expression = target["expr"].replace("$__rate_interval", "30s")
    for name in ("service", "pipeline"):
        expression = expression.replace(f'{name}=~"${name}"', f'{name}=~".*"')
    found = asked(port, "query_range", query=expression, start=begin, end=end, step=SCRAPED_SECONDS)
    for each in found["result"]:
        legend = target["legendFormat"]
        for label, value in each["metric"].items():
            legend = legend.replace(f"{{{{{label}}}}}", value)
        times = [datetime.fromtimestamp(at, UTC) for at, _ in each["values"]]
        yield legend, times, [float(value) for _, value in each["values"]]


def draw(port, begin, end, path):
    """The dashboard's panels in their places; titles of panels in which a query found nothing."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    rows = 1 + max(panel["gridPos"]["y"] for panel in panels) // 8
    picture = Figure(figsize=(17, 3.6 * rows), layout="constrained")
    places = picture.subplots(rows, 3)
    for axes in places.flat[len(panels) :]:
        axes.set_visible(False)
    empty = []
    for panel in panels:
        axes = places[panel["gridPos"]["y"] // 8][panel["gridPos"]["x"] // 8]
        unit = panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            lines = list(series(port, target, begin, end))
            empty += [] if lines else [f"{panel['title']}: {target['expr']}"]
            for legend, times, values in lines:
                axes.plot(
                    times, [each / SCALE.get(unit, 1) for each in values], label=legend, lw=1.3
                )
        axes.set_title(panel["title"], fontsize=11)
        axes.set_ylabel(UNITS[unit])
        axes.set_ylim(bottom=0)
        axes.set_xlim(*(datetime.fromtimestamp(at, UTC) for at in (begin, end)))
        axes.xaxis.set_major_locator(AutoDateLocator(maxticks=6))
        axes.xaxis.set_major_formatter(DateFormatter("%H:%M:%S"))
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=7, ncol=2, loc="upper left")
    picture.savefig(path, dpi=75, metadata={"Software": None})
    return empty


def rules_that_do_not_work(port):
    groups = asked(port, "rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert rules
    return [f"{rule['name']}: {rule.get('lastError')}" for rule in rules if rule["health"] != "ok"]


def measured(port, name, pipeline):
    """A gauge or counter of a pipeline as the service tells it; 0 where it does not yet."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as got:
        text = got.read().decode()
    start = f'sequencer_{name}{{pipeline="{pipeline}",service="shop"}}'
    found = (line for line in text.splitlines() if line.startswith(start))
    return float(next(found, "0").split()[-1])


def wait_for(holds, limit_s=180):
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit("the service does not get on")
        time.sleep(0.5)


def wait_ready(port):
    def ready():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return True
        except OSError:
            return False

    wait_for(ready)


def warm_up(bootstrap, port):
    """Some batches, for Spark's first ones take seconds."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for turn in range(WARM_TURNS):
        for name in RATES:
            producer.produce(f"{name}.in", b"", b"warm", headers=[("label", b"%d" % turn)])
        assert producer.flush(60) == 0
        for name in RATES:
            wait_for(lambda n=name, t=turn: measured(port, "records_delivered_total", n) > t)


def run(options, folder, broker):
    ports = free_port(), free_port()
    create(broker.bootstrap, *(f"{name}.in" for name in RATES))
    config = write_config(folder, broker.bootstrap, ports[0])
    with (
        running(config, folder / "service.log"),
        prometheus(options.prometheus, folder, ports[1], ports[0]),
    ):
        wait_ready(ports[0])
        warm_up(broker.bootstrap, ports[0])
        begin = time.time()
        sender = threading.Thread(
            target=load, args=(broker.bootstrap, options.seconds), daemon=True
        )
        sender.start()
        sender.join(options.seconds * 2 / 3)
        wait_for(lambda: measured(ports[0], "blocked_keys", "trades") >= LOST)
        time.sleep(BLOCKED_SECONDS)
        skip = ["skip", str(config), "--pipeline", "trades", "--blocked", "5 s", "--timeout", "120"]
        subprocess.run([*COMMAND, *skip], check=True)
        sender.join()
        wait_for(lambda: not sum(measured(ports[0], "lag_records", name) for name in RATES))
        time.sleep(3 * SCRAPED_SECONDS)
        faults = draw(ports[1], begin, time.time(), options.output)
        return faults + rules_that_do_not_work(ports[1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prometheus", default=shutil.which("prometheus"))
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "figures" / "dashboard.png")
    options = parser.parse_args()
    if options.prometheus is None:
        raise SystemExit("Prometheus is wanted: give its program with --prometheus.")
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker() as broker:
        faults = run(options, Path(folder), broker)
    for each in faults:
        print(f"found nothing, or does not work: {each}", file=sys.stderr)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
