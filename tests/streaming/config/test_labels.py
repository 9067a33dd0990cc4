"""Windows of cycles, and labels of the user's own."""

from __future__ import annotations

import sys

import pytest

from sequencer.channels.rules import CUSTOM_WINDOW_DEFAULT, WINDOW_MAX
from streaming.errors import ConfigError
from tests.streaming.config.configs import channel, faults_of, rules_of


@pytest.mark.parametrize(
    ("modulus", "step", "window"),
    [(4, 1, 1), (65_536, 1, 32_767), (100, 25, 1), (2**40, 1, 1_000_000), (1_000_003, 7, 500_001)],
)
def test_the_default_window_of_a_cycle_is_below_its_half(modulus, step, window):
    labels = f'labels = {{ kind = "cyclic", modulus = {modulus}, step = {step} }}\n'
    assert rules_of(channel(labels)).window == window
    cycle = rules_of(channel(labels)).labels.cycle
    widest = (cycle - 1) // 2
    if widest < WINDOW_MAX:
        assert rules_of(channel(f"{labels}buffer = {{ window = {widest} }}")).window == widest
        (fault,) = faults_of(f"{labels}buffer = {{ window = {widest + 1} }}")
        assert fault.startswith(f"pipelines.p.buffer.window: {widest + 1} is too wide")
        assert f"write {widest} or less" in fault


def test_a_channel_that_begins_anywhere_settles_for_two_seconds_by_default():
    assert rules_of(channel("")).settle_ms is None
    labels = 'labels = { kind = "linear", start = "first-seen"'
    assert rules_of(channel(f"{labels} }}")).settle_ms == 2_000
    rules = rules_of(channel(f'{labels}, step = 5, settle = "300 ms" }}'))
    assert (rules.settle_ms, rules.labels.at(2)) == (300, 10)


@pytest.mark.parametrize("words", ["{}", '{ start = "first-seen" }', "{ start = 3, step = 2 }"])
def test_labels_are_linear_unless_something_else_is_said(words):
    assert rules_of(channel(f"labels = {words}")).labels.cycle is None


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """Gives a function that writes a module of the user's; the name of one in it."""

    def write(code, name="its_labels"):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    return write


def custom(module, function="after", extra=""):
    return channel(
        f'labels = {{ kind = "custom", initial = "a", next = "{module}:{function}" }}\n{extra}'
    )


def test_custom_labels_are_imported_only_when_asked_for(user_module):
    module = user_module("def after(label):\n    return label[:-1] + chr(ord(label[-1]) + 1)\n")
    config = custom(module)
    assert module not in sys.modules
    rules = rules_of(config, "p")
    assert [rules.labels.at(n) for n in range(3)] == ["a", "b", "c"]
    assert rules.window == CUSTOM_WINDOW_DEFAULT


def test_custom_labels_that_come_back_are_a_cycle(user_module):
    module = user_module("def after(label):\n    return chr((ord(label) - 97 + 1) % 10 + 97)\n")
    rules = rules_of(custom(module))
    assert (rules.labels.cycle, rules.window) == (10, 4)
    with pytest.raises(
        ConfigError, match=r"pipelines\.p\.buffer\.window: 5 is too wide.*4 or less"
    ):
        rules_of(custom(module, extra="buffer = { window = 5 }"))


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("", "cannot be imported .*has no attribute 'after'"),
        ("import not_there_at_all", "cannot be imported .*not_there_at_all"),
        ("1 / 0", "cannot be imported .ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "cannot be imported .SystemExit: 3"),
        ("after = 3", "is int, no function"),
        ("def after(label):\n    return 3", "labels must be text"),
        ("def after(label):\n    return label", "repeats|cycle of 1"),
        ("def after(label):\n    return 'b'", "repeats 'b'"),
        ("def after():\n    return 'b'", "TypeError: .*positional argument"),
        ("def after(label):\n    raise KeyError('x')", "KeyError: 'x'"),
        ("def after(label):\n    return label + 'a'", "1001 characters"),
    ],
)
def test_custom_labels_that_do_not_work(user_module, code, told):
    with pytest.raises(ConfigError, match=rf"pipelines\.p\.labels: its_labels:after .*({told})"):
        rules_of(custom(user_module(code)))


def test_a_custom_window_is_one_that_can_be_searched():
    labels = 'labels = { kind = "custom", initial = "a", next = "m:f" }\n'
    (fault,) = faults_of(f"{labels}buffer = {{ window = 5_000_000 }}")
    assert "pipelines.p.buffer.window: 5000000 is too wide" in fault
