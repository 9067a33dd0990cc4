"""What pages tell people to type and to write is there: verbs, their options, keys of the file."""

import json
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.main

from streaming import cli
from streaming.arrow.partitioner import partition_of
from streaming.config import parse_config
from streaming.disciplines.channels import commands as channels
from streaming.disciplines.groups import commands as groups
from streaming.disciplines.multicast import commands as multicast

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
SHOWN = re.compile(r"```\w*\n(.*?)```|`([^`]+)`", re.DOTALL)
CALL = re.compile(r"^sequencer ([a-z]+)(.*)$", re.MULTILINE)
TABLES = {"service", "kafka", "spark", "pipelines"}
VERBS = typer.main.get_command(cli.app).commands


def calls(text):
    """What follows `sequencer` in code, up to a comment: a verb and its words."""
    for block, span in SHOWN.findall(text):
        for verb, words in CALL.findall(block or span):
            yield verb, words.partition("#")[0]


def options_of(verb, words):
    """The options of a verb, or of the verb below it that the words begin with, several by |."""
    below = getattr(VERBS[verb], "commands", {})
    names = words.split()[0].split("|") if below and words.split() else []
    chosen = [below[name] for name in names if name != "…"] or [VERBS[verb]]
    return {option for each in chosen for parameter in each.params for option in parameter.opts}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_are_there(page):
    for verb, words in calls(page.read_text()):
        assert verb in VERBS, f"sequencer {verb}{words}"
        wrong = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", words)) - options_of(verb, words)
        assert not wrong - {"--help"}, f"sequencer {verb}{words}"


def test_there_are_commands_to_look_at():
    assert sum(1 for page in PAGES for _ in calls(page.read_text())) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_configurations_can_work(page):
    """Those that are no tables are lines of a pipeline of channels, one at a time."""
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    for lines in [text for text in blocks if not any(f"[{table}" in text for table in TABLES)]:
        for each in lines.splitlines():
            own = {"discipline": "channel", **tomllib.loads(each)}
            parse_config({"pipelines": {"p": own}}, {}, page.name)
    for text in blocks:
        if not any(f"[{table}" in text for table in TABLES):
            continue
        tables = tomllib.loads(text)
        tables.setdefault("pipelines", {"p": {"discipline": "channel"}})
        given = dict.fromkeys(re.findall(r"\$\{([A-Z_]+)\}", text), "from the environment")
        parse_config(tables, given, page.name)


def objects():
    """The JSON of pages, a line each, with the page's name."""
    for page in PAGES:
        for block in re.findall(r"```json\n(.*?)```", page.read_text(), re.DOTALL):
            yield from ((page.stem, line) for line in block.splitlines() if line)


@pytest.mark.parametrize(("page", "text"), list(objects()))
def test_commands_in_json_can_be_read(page, text):
    """By the service, as it stands on the page; events and questions are objects."""
    given = json.loads(text)
    if page == "groups":
        plan = SimpleNamespace(output="market.out")
        assert groups.read_command(text.encode(), plan).reason == ""
    elif page == "multicast":
        assert multicast.read_command(text.encode()).node == given["node"]
    elif "op" in given or "not_coming" in given:
        assert channels.read_request(text.encode()).command is not None
    else:
        assert {"event", "try"} & set(given), "what else there is has its own test"


TAILED = re.compile(r"^[\w.]+/(\d+)@\d+ +\S+Z +(\S+) +\[", re.MULTILINE)
NEW_PARTITIONS = 8


def test_records_lie_where_their_keys_say():
    """What `tail` shows on pages, of topics that `topics --create` made."""
    shown = [each for page in PAGES for each in TAILED.findall(page.read_text())]
    assert len(shown) > 5
    for partition, key in shown:
        assert int(partition) == partition_of(key.encode(), NEW_PARTITIONS), key


def test_every_event_of_the_log_has_its_row():
    page = (ROOT / "docs" / "operations.md").read_text()
    table = page.partition("| event | level | more fields |")[2].partition("\n\n")[0]
    rows = {name for row in table.splitlines() for name in re.findall(r"`([\w-]+)`", row[:120])}
    code = "".join(path.read_text() for path in (ROOT / "streaming").rglob("*.py"))
    events = set(re.findall(r'event="([\w-]+)"', code))
    assert len(events) > 20
    assert not events - rows
