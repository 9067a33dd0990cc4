"""Rates of `sequencer run --once`, as users run it, of several cases in turns.

A topic is worked through from its beginning with the defaults; counted are the records read after
the first quarter, from the batches' times in the checkpoint. A busy machine changes rates more than
it changes the CPU that a run takes with all its processes, start and end included. Ratios of one
run only.

    python bench/once.py --trees ../old . --turns 3      # two states of this project
    python bench/once.py --values                        # labels in values beside those in headers
    python bench/once.py --features                      # what is off by default, one by one
"""

import argparse
import itertools
import json
import random
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from groups_growth import membership
from harness import create, remove, say, send, warm_broker
from values import AVRO, LINES, PROTOBUF, WRITERS

HERE = Path(__file__).parent.parent
CHANNELS = 10_000
VARIANTS = 50
RECORDS = {100: 1_200_000, 1000: 400_000}
ROLES = ("", ".rejects", ".events", ".commands")
RUN_SECONDS_MAX = 240
SCHEMAS = {1: ("AVRO", json.dumps(AVRO)), 2: ("PROTOBUF", PROTOBUF)}


class Case(NamedTuple):
    """A line of the table: what is compared, and how it is run."""

    topic: str
    name: str
    tree: Path = HERE
    settings: str = 'discipline = "channel"'


FEATURES = {
    "notices": "notices = true",
    "progress": 'progress = "{output}.progress"',
}
"""Settings of a pipeline whose output is ``output``."""
FEATURES_OF = {
    "channels": {
        **FEATURES,
        "input_commands": 'input_commands = ["skip"]',
        "unlabelled": 'unlabelled = "pass"',
    },
    "groups": {
        **FEATURES,
        "input_commands": 'input_commands = ["join", "leave"]',
        "no stamps": "stamps = false",
    },
}
GROUPS, SUBSCRIBERS, PUBLISHED = 32, 128, 200_000


class Registry(BaseHTTPRequestHandler):
    """A schema registry, as far as it is asked."""

    def do_GET(self):
        number = self.path.partition("?")[0].rpartition("/")[2]
        kind, schema = SCHEMAS[int(number)]
        body = json.dumps({"schemaType": kind, "schema": schema}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", nargs="+", type=Path, default=[])
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--features", nargs="*", choices=FEATURES_OF, help="default: all")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of messages")
    parser.add_argument("--seconds", type=float, default=10_000, help="no case begins after that")
    parser.add_argument("--batch", type=int, help="records of a batch at most; else as it grows")
    parser.add_argument("--service", default="", help="more lines for the table [service]")
    given = parser.parse_args()
    began, rates = time.monotonic(), {}
    with warm_broker() as broker, ThreadingHTTPServer(("127.0.0.1", 0), Registry) as registry:
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        cases = list(cases_of(given, broker.bootstrap))
        for turn in range(given.turns):
            for case in cases if turn % 2 == 0 else reversed(cases):
                if time.monotonic() - began < given.seconds:
                    before = cpu()
                    rate = one(broker.bootstrap, case, turn, registry.server_port, given)
                    spent = cpu() - before
                    say(
                        f"{case.topic}, {case.name}: {rate:,.0f} records/s, {spent:.1f} s of a core"
                    )
                    found = rates.setdefault(case.topic, {}).setdefault(case.name, [])
                    found.append((rate, spent))
        registry.shutdown()
    print("\n".join(table(rates)))


def cases_of(given, bootstrap):
    """What is compared; their topics are written."""
    if given.trees:
        filled(bootstrap, "channels", "json", 100, given.scale)
        for tree in given.trees:
            yield Case("channels", tree.absolute().name, tree.absolute())
    for topic in given.features or (FEATURES_OF if given.features is not None else ()):
        yield from with_features(bootstrap, topic, given.scale)
    for size, encoding in itertools.product(LINES, WRITERS) if given.values else ():
        topic = f"{encoding}-{size}"
        filled(bootstrap, topic, encoding, size, given.scale)
        path = "$.seq" if encoding == "json" else "seq"
        yield Case(topic, "header")
        value = f'discipline = "channel"\nlabel = {{ {encoding} = "{path}" }}'
        yield Case(topic, "value", settings=value)


def with_features(bootstrap, topic, scale):
    """A topic worked through without features, and with each of them."""
    if topic == "channels":
        filled(bootstrap, topic, "json", 100, scale)
        settings = 'discipline = "channel"'
    else:
        members = membership(GROUPS, SUBSCRIBERS)
        published(bootstrap, topic, [*members], round(PUBLISHED * scale))
        listed = ", ".join(f"{name} = {json.dumps(some)}" for name, some in members.items())
        settings = f'discipline = "group"\ngroups = {{ {listed} }}'
    for name, more in {"nothing": "", **FEATURES_OF[topic]}.items():
        yield Case(topic, name, settings=f"{settings}\n{more}")


def published(bootstrap, topic, groups, count):
    """Write messages of 50 senders to random groups."""
    rng = random.Random(1)
    values = [rng.randbytes(100) for _ in range(VARIANTS)]
    records = (
        (b"p%d" % rng.randrange(50), [("group", rng.choice(groups).encode())], values[n % VARIANTS])
        for n in range(count)
    )
    written(bootstrap, topic, records)


def filled(bootstrap, topic, encoding, size, scale):
    """Write trades of this size, whose headers have the label, too; each channel's in order."""
    written(bootstrap, topic, trades(encoding, size, scale))


def trades(encoding, size, scale):
    """Keys, headers and values."""
    rng, write = random.Random(1), WRITERS[encoding]
    lines = [{"sku": f"item-{n}", "count": n, "price": 1.5 * n} for n in range(LINES[size])]
    keys = [b"K%d" % channel for channel in range(CHANNELS)]
    for label in range(max(1, round(RECORDS[size] * scale / CHANNELS))):
        trade = {"id": "K", "seq": label, "note": "", "lines": lines, "last": label}
        room = max(8, size - len(write(trade)))
        values = [write({**trade, "note": rng.randbytes(room // 2).hex()}) for _ in range(VARIANTS)]
        headers = [("label", b"%d" % label)]
        for channel, key in enumerate(keys):
            yield key, headers, values[channel % VARIANTS]


def written(bootstrap, topic, records):
    """Write a new topic."""
    create(bootstrap, topic)
    send(bootstrap, topic, records, **{"compression.type": "lz4"})


def one(bootstrap, case, turn, registry, given):
    """Records a second of one run."""
    output = f"{case.topic}-{case.name}-{turn}".replace(" ", "-")
    topics = [f"{output}{role}" for role in ROLES]
    create(bootstrap, *topics)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        config = Path(folder, "service.toml")
        config.write_text(
            f'[service]\nname = "{output}"\ncheckpoint = "{folder}/checkpoints"\n'
            + (f"batch_records_max = {given.batch}\n" if given.batch else "")
            + f"{given.service}\n"
            + f'[kafka]\nbootstrap_servers = "{bootstrap}"\n'
            + (f'schema_registry = "http://127.0.0.1:{registry}"\n' if case.name == "value" else "")
            + f'[pipelines.p]\ninput = ["{case.topic}"]\n'
            + case.settings.replace("{output}", output)
            + "\n"
            + "".join(
                f'{name} = "{topic}"\n'
                for name, topic in zip(
                    ("output", "rejects", "events", "commands"), topics, strict=True
                )
            )
        )
        python = case.tree / ".venv/bin/python"
        words = [str(python), "-m", "streaming.cli", "run", str(config), "--once"]
        ran = subprocess.run(
            words,
            cwd=case.tree,
            env={"PYTHONPATH": str(case.tree), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
            stderr=subprocess.PIPE,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        if ran.returncode:
            raise SystemExit(f"{output} failed\n{ran.stderr[-2000:]}")
        checkpoint = Path(folder, "checkpoints", "p")
        rate = rate_of(checkpoint, case.topic)
        ends = ", ".join(f"{count:,}" for count, _ in read_of(checkpoint, case.topic)[1:])
        say(f"{output}: batches end at {ends}")
    remove(bootstrap, *topics)
    return rate


def cpu():
    """Seconds of a core that ended processes took."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def rate_of(checkpoint, topic):
    """Records a second after the first quarter, by the times of Spark's logs."""
    read = read_of(checkpoint, topic)
    total, ended = read[-1]
    first = next(n for n, (count, _) in enumerate(read) if count >= total / 4)
    count, began = read[min(first, len(read) - 2)]
    return (total - count) / (ended - began)


def read_of(checkpoint, topic):
    """How many records were read by the end of each batch, and when that was."""
    read = [(0, (checkpoint / "offsets" / "0").stat().st_mtime)]
    for file in sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda each: int(each.name)):
        lines = Path(checkpoint, "offsets", file.name).read_text().splitlines()
        read.append((max(map(positions, lines[2:], itertools.repeat(topic))), file.stat().st_mtime))
    return read


def positions(line, topic):
    """How many records of a topic lie before the offsets in a line of Spark's log."""
    offsets = json.loads(line) if line.startswith("{") else {}
    return sum(offsets.get(topic, {}).values())


def table(rates):
    """Lines of Markdown: each case beside the first one of its topic, turn by turn."""
    yield "| topic | case | records/s | beside the first | CPU, s | beside the first |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for topic, cases in rates.items():
        first = next(iter(cases.values()))
        for name, found in cases.items():
            cells = []
            for part in (0, 1):
                ratios = [mine[part] / to[part] for mine, to in zip(found, first, strict=False)]
                each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
                cells.append(f"{statistics.median(turn[part] for turn in found):,.0f}")
                cells.append(f"{statistics.median(ratios):.2f} ({each})" if ratios else "")
            yield f"| {topic} | {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
