"""Errors say what happened, whether it took effect, and what to do."""

import ast
from pathlib import Path

import streaming

ROOT = Path(streaming.__file__).parent
FAMILY = {
    *("SequencerError", "ConfigError", "KafkaUnavailable", "KafkaRefused", "StorageUnavailable"),
    *("TopicsMissing", "FileUnusable"),
}


def raised(source):
    """Yield the calls of errors of the service that a source raises, with their names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            of = node.exc.func
            name = of.id if isinstance(of, ast.Name) else getattr(of, "attr", "")
            if name in FAMILY:
                yield name, node.exc


def lacks_its_effect(call):
    is_spread = any(isinstance(each, ast.Starred) for each in call.args)
    is_named = any(each.arg == "effect" for each in call.keywords)
    return not (is_spread or is_named or len(call.args) > 1)


def test_an_error_says_whether_it_took_effect():
    silent = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {name}"
        for path in sorted(ROOT.rglob("*.py"))
        for name, call in raised(path.read_text(encoding="utf-8"))
        if lacks_its_effect(call)
    ]
    assert not silent
