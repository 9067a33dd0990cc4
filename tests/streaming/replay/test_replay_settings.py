"""What `sequencer replay --set` makes of a configuration."""

import pytest

from sequencer.channels import Skip
from streaming.errors import ConfigError
from streaming.replay.stepping import changed

TEXT = """
[pipelines.p]
discipline = "channel"
[[pipelines.p.rules]]
channel = "vip.*"
gap = { policy = "skip", after = "5 s" }
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(TEXT)
    return path


def test_a_rule_of_channels_by_its_number(source):
    sets = {"rules[0].gap.after": "2s", "rules[0].buffer.held": "7"}
    ((glob, rules),) = changed(source, "p", sets, "x.", {}).pipelines["p"].all_rules().others
    assert (glob, rules.gap, rules.held_max) == ("vip.*", Skip(2000), 7)


@pytest.mark.parametrize("path", ["rules[1].gap.after", "gap[0].after"])
def test_a_rule_that_is_not_there(source, path):
    with pytest.raises(ConfigError, match="is not a table"):
        changed(source, "p", {path: "2s"}, "x.", {})
