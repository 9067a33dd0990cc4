"""Labels and channels as fields of the value, as the file names them."""

import pickle
import re
import tomllib
from pathlib import Path

import pytest

from streaming.cli.check import understood
from streaming.config import parse_config
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.channels.fields import fields_of
from streaming.settings.fields import STEPS_MAX, json_steps, named_steps
from tests.streaming.config.configs import channel, faults_of

PAGE = Path(__file__).parents[3] / "docs/values.md"


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$", ()),
        ("$.seq", ("seq",)),
        ("$.order.seq", ("order", "seq")),
        ("$.items[0].id", ("items", 0, "id")),
        ("$['order id']", ("order id",)),
        ('$["a.b"].c', ("a.b", "c")),
        ("$.größe", ("größe",)),
        ("$.data.ce-id", ("data", "ce-id")),
        ("seq", None),
        ("$seq", None),
        ("$.", None),
        ("$..seq", None),
        ("$.*", None),
        ("$[*]", None),
        ("$[-1]", None),
        ("$[1:2]", None),
        ("$.a b", None),
        ("$['a", None),
        ("", None),
    ],
)
def test_paths_in_json(path, steps):
    assert json_steps(path) == steps


@pytest.mark.parametrize(
    ("path", "steps"),
    [("seq", ("seq",)), ("a.b_1.C", ("a", "b_1", "C")), ("", None), ("a.", None), ("$.a", None), ("1a", None)],
)  # fmt: skip
def test_paths_by_names(path, steps):
    assert named_steps(path) == steps


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("label = {}", "pipelines.p.label: names a field of the value by one of json, avro"),
        ('label = { json = "$.a", avro = "a" }', "pipelines.p.label: names a field of the value"),
        ('label = { xml = "/a" }', "pipelines.p.label: names a field of the value by one of json"),
        ("channel = { json = 3 }", "pipelines.p.channel.json: must be text in quotes"),
        ('channel = { json = "seq" }', "'seq' is not a path of one field; write for instance \"$.ord"),
        ('label = { json = "$.a[*]" }', "pipelines.p.label.json: '$.a[*]' is not a path of one field"),
        (f'label = {{ json = "${".a" * (STEPS_MAX + 1)}" }}', f"has more than {STEPS_MAX} steps"),
        ("label = 3", "pipelines.p.label: must be text in quotes, or a field of the value"),
        ('label = ["$.a"]', "pipelines.p.label: must be text in quotes, or a field of the value"),
    ],
)  # fmt: skip
def test_a_fault_of_a_field(text, told):
    (fault,) = faults_of(text)
    assert told in fault


def test_a_field_is_kept_as_it_was_written():
    config = channel('label = { json = "$.n.seq" }\nchannel = { json = "$.id" }')
    settings = config.pipelines["p"]
    assert understood(config)["pipelines"]["p"]["label"] == {"json": "$.n.seq"}
    identity = DISCIPLINES["channel"].identity(settings)
    assert identity["channel"] == {"json": "$.id"}
    assert pickle.loads(pickle.dumps(settings.label)) == settings.label
    assert str(settings.label) == '{ json = "$.n.seq" }'
    assert len({settings.label, settings.channel}) == 2
    assert not DISCIPLINES["channel"].rows(settings), "records go past Spark's rows"
    modules = DISCIPLINES["channel"].operators(settings)
    assert "streaming.values.json_values" in modules


@pytest.mark.parametrize("discipline", ["channel", "label"])
@pytest.mark.parametrize("encoding", ["avro", "protobuf"])
def test_a_channel_that_takes_schemas_takes_a_registry(discipline, encoding):
    (fault,) = faults_of(f'channel = {{ {encoding} = "id" }}', discipline)
    assert fault.startswith("pipelines.p: reads fields of values in Avro or Protobuf, which takes")


def test_without_fields_no_worker_imports_what_reads_them():
    settings = channel("").pipelines["p"]
    assert DISCIPLINES["channel"].operators(settings) == ("streaming.disciplines.channels.core",)


def test_the_pages_examples_are_configurations():
    for text in re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL):
        config = parse_config(tomllib.loads(text), {"REGISTRY_USER": "ann:word"}, PAGE.name)
        assert all(fields_of(each.channel, each.label) for each in config.pipelines.values())
