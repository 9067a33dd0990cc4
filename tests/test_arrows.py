"""Imports go one way; `sequencer` needs no Spark, Kafka, clock or I/O."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
PURE = {
    "__future__",
    "bisect",
    "collections",
    "contextlib",
    "dataclasses",
    "enum",
    "functools",
    "heapq",
    "importlib",
    "itertools",
    "json",
    "math",
    "operator",
    "random",
    "re",
    "typing",
    "networkx",
    "numpy",
    "pyarrow",
    "scipy",
    "sequencer",
    "abc",
    "array",
    "copy",
    "string",
    "threading",
    "graphlib",
    "types",
    "warnings",
}
LAYERS = [
    {"places", "terminal"},
    {"errors", "crashes", "durable", "logs"},
    {"versions"},
    {"stopping", "arrow", "settings"},
    {"graph", "simulate"},
    {"wire", "values"},
    {"disciplines"},
    {"config"},
    {"storage"},
    {"kafka"},
    {"spark"},
    {"sink", "source", "resending", "clients"},
    {"service"},
    {"verify", "replay"},
    {"bench", "console", "demo"},
    {"cli"},
    {"__main__"},
]
"""The rooms of `streaming`, the lowest first."""

FOREIGN = {
    "spark": {
        "py4j": set(),
        "pyspark": {
            "pyspark",
            "pyspark.errors",
            "pyspark.sql",
            "pyspark.sql.streaming",
            "pyspark.sql.streaming.state",
        },
    },
    "wire": {"kafka": {"kafka", "kafka.errors"}},
}
"""Packages of others that one room may import whole; beside them, modules that all may import."""

PRIVATE = {
    "spark": {"_gateway", "_jdf", "_jsc", "_jsparkSession", "_jvm"},
    "wire": {"_rbuffer", "_sock", "_sock_recv"},
}
"""Attributes of those packages' objects that one room may ask for."""


@cache
def tree(path):
    """What the rules look at, of all nodes of a file."""
    kinds = (ast.Import, ast.ImportFrom, ast.Attribute)
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def modules_imported(path):
    for node in tree(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def imports(path):
    yield from modules_imported(path)
    for node in tree(path):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(package):
    for path in sorted((ROOT / package).rglob("*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


def test_sequencer_is_pure():
    for name, path in modules("sequencer"):
        found = {each.split(".")[0] for each in imports(path)}
        assert found <= PURE, f"{name} imports {found - PURE}"
        threads = (
            "sequencer.availability.atomic",
            "sequencer.availability.broker",
            "sequencer.availability.drafts",
        )
        assert "threading" not in found or name in threads, f"{name} imports threading"


@pytest.mark.parametrize("package", ["sequencer", "streaming"])
def test_no_circle(package):
    known = dict(modules(package))
    graph = nx.DiGraph()
    for name, path in known.items():
        for each in imports(path):
            if each in known and each != name and not name.startswith(each + "."):
                graph.add_edge(name, each)
    assert nx.is_directed_acyclic_graph(graph), nx.find_cycle(graph)


def test_streaming_imports_lower_layers_only():
    layer = {name: number for number, names in enumerate(LAYERS) for name in names}
    for name, path in modules("streaming"):
        if name == "streaming":
            continue
        mine = name.split(".")[1]
        assert mine in layer, f"{name}: put it into LAYERS"
        for each in imports(path):
            if each.startswith("streaming.") and (other := each.split(".")[1]) in layer:
                assert layer[other] < layer[mine] or other == mine, f"{name} imports {each}"


def attributes(path):
    return {node.attr for node in tree(path) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("room", FOREIGN)
def test_what_is_private_to_others_has_one_door(room):
    """An upgrade of theirs is then a matter of one room, and of its `test_internals.py`."""
    wrong = []
    for name, path in modules("streaming"):
        if name.split(".")[1:2] == [room]:
            continue
        for each in modules_imported(path):
            public = FOREIGN[room].get(each.split(".")[0])
            if public is not None and each not in public:
                wrong.append(f"{name} imports {each}")
        wrong += [f"{name} asks for {each}" for each in attributes(path) & PRIVATE[room]]
    assert not wrong, f"only streaming/{room}/ may: {wrong}"


def test_sequencer_works_where_nothing_else_is_installed():
    names = ", ".join(name for name, _ in modules("sequencer"))
    blocked = ("pyspark", "confluent_kafka", "kafka", "pydantic", "typer", "streaming", "pandas")
    code = (
        "import sys\n"
        f"for name in {blocked!r}: sys.modules[name] = None\n"
        f"import {names}\n"
        "from sequencer import LinearLabels, CyclicLabels, LabelProxy, OrderedProxy, Availability\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)
