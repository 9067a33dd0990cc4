"""How long `sequencer why` takes: wall time and CPU of the command, with and without `origin`.

100,000 messages of 10,000 channels, whose deliveries lie in an output of four partitions as the
service writes them; records of the input and of the output are asked for in turns. The first line
is Python's start and the imports alone, of the same program.

    python bench/why.py
    python bench/why.py --trees ../old .      # two states of this project, in turns
"""

import argparse
import itertools
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from harness import create, warm_broker

HERE = Path(__file__).parent.parent
CHANNELS = 10_000
RECORDS = 100_000
PARTITIONS = 4
IMPORTS = (
    "import streaming.cli, confluent_kafka; from streaming.config import load_config; "
    "from streaming.verify import lives, origins, seeking"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--trees", nargs="+", type=Path, default=[HERE])
    given = parser.parse_args()
    with warm_broker() as broker, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        cases = {"start and imports": [["-c", IMPORTS]]}
        for origin in (True, False):
            name = f"why-{'origin' if origin else 'bytes'}"
            config = configured(Path(folder, f"{name}.toml"), broker.bootstrap, name, origin=origin)
            for topic, places in filled(broker.bootstrap, name, origin=origin).items():
                words = ["-m", "streaming.cli", "why"]
                cases[topic] = [[*words, place, str(config)] for place in places]
        trees = [tree.absolute() for tree in given.trees]
        found = {(name, tree.name): [] for name in cases for tree in trees}
        for turn, (name, calls) in itertools.product(range(given.times), cases.items()):
            for tree in trees:
                found[name, tree.name].append(timed(calls[turn % len(calls)], tree))
    print("| record of | tree | wall s | (least, most) | CPU s |\n| --- | --- | --- | --- | --- |")
    for names, each in found.items():
        wall, cpu = ([one[part] for one in each] for part in (0, 1))
        ends = f"{min(wall):.2f}, {max(wall):.2f}"
        middle = f"{statistics.median(wall):.2f} | ({ends}) | {statistics.median(cpu):.2f}"
        print(f"| {' | '.join(names)} | {middle} |")


def configured(path, bootstrap, name, *, origin):
    path.write_text(
        f'[kafka]\nbootstrap_servers = "{bootstrap}"\n[pipelines.{name}]\n'
        f'discipline = "channel"\norigin = {str(origin).lower()}\n'
    )
    return path


def filled(bootstrap, name, *, origin):
    """Write the topics; some places of the input, and of the output."""
    create(
        bootstrap, *(f"{name}.{role}" for role in ("in", "out", "rejects", "events", "commands"))
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 10**6,
        }
    )
    ends, first_ms = [0] * PARTITIONS, int(time.time() * 1000) - RECORDS
    places = {f"{name}.in": [], f"{name}.out": []}
    for number in range(RECORDS):
        label, channel = divmod(number, CHANNELS)
        home, key = channel % PARTITIONS, b"K%d" % channel
        place = f"{name}.in/{home}@{ends[home]}"
        headers = [("label", b"%d" % label)]
        added = [("sequence", b"%d" % label), ("incarnation", b"1")]
        added += [("origin", place.encode())] if origin else []
        how = {"partition": home, "timestamp": first_ms + number}
        producer.produce(f"{name}.in", b"v%d" % number, key, headers=headers, **how)
        producer.produce(f"{name}.out", b"v%d" % number, key, headers=headers + added, **how)
        if number % (RECORDS // 9) == 7:
            places[f"{name}.in"].append(place)
            places[f"{name}.out"].append(f"{name}.out/{home}@{ends[home]}")
        ends[home] += 1
        producer.poll(0)
    assert producer.flush(120) == 0
    return places


def timed(words, tree):
    """Seconds by the clock, and of a core."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    ran = subprocess.run(
        [tree / ".venv/bin/python", *words], cwd=tree, capture_output=True, text=True, check=False
    )
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.returncode == 0, ran.stderr
    assert "why" not in words or ": delivered\n" in ran.stdout, ran.stdout
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
