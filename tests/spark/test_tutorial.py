"""docs/tutorial.md, word by word: what is typed, and what it prints."""

import re
import shlex
import time
from collections import Counter
from pathlib import Path

from tests.service_helpers import WarmService, called
from tests.walks import require_readable, walk_with_spark

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
SECONDS_MAX = 120
READS = ("tail", "status", "verify", "resend")
"""Verbs that only look: what they show may take a moment to be there."""
DIFFERS = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "TIME"),
    (r"(/|gap:P1:)\d+[@:]\d+(:\d+)?", r"\1PLACE"),
    (r"process \d+ on [^,]+", "PROCESS"),
    (r"reject-(partition|offset)=\d+", r"reject-\1=N"),
    (r"(incarnation[=\": ]+|after=)\d+", r"\1N"),
    (r"(waited_ms[\": ]+)\d+", r"\1N"),
    (r"\d+(,\d+)* s\b", "N s"),
    (r"^(batch|batch_ms) +\d+", r"\1 N"),
    (r"^It has: .*", "It has: what others made."),
)


def lines(text):
    """The words of each line, without what differs each time."""
    found = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern, same in DIFFERS:
        found = [re.sub(pattern, same, line) for line in found]
    return [re.sub(r"[][{}(),]", " ", line).split() for line in found]


def differing(page, shown):
    """The lines that only the page has, and those that only the command printed."""
    has, had = (Counter(" ".join(line) for line in lines(text)) for text in (page, shown))
    return [*(f"page: {line}" for line in has - had), *(f"printed: {line}" for line in had - has)]


def typed():
    """Each command of the page that is typed in the third terminal, with what it shall print."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def printed(command, output):
    """What it prints, once that is what the page says, or the time is over."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        _, out, err = called(*shlex.split(command)[1:])
        if not differing(output, out + err) or command.split()[1] not in READS:
            return out + err
        if time.monotonic() > deadline:
            return out + err
        time.sleep(0.3)


def test_word_by_word(broker, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEQUENCER_BOOTSTRAP_SERVERS", broker.bootstrap)
    monkeypatch.setenv("USER", "you")
    commands = list(typed())
    assert len(commands) > 12

    def do(some):
        for command, output in some:
            shown = printed(command, output)
            assert not (lines := differing(output, shown)), "\n".join([command, *lines])

    do(commands[:2])
    config = tmp_path / "parcels.toml"
    config.write_text(config.read_text().replace("var/parcels", str(tmp_path / "var")))
    environment = {"SEQUENCER_BOOTSTRAP_SERVERS": broker.bootstrap}
    with WarmService(config, environment=environment) as service:
        do(commands[2:])
        assert service.stop() == 0, service.said()
    logged = "parcels: command skip (channel P1, by ann, why scanner broken): done"
    assert service.said().count(logged) == 1, "once"
    inspect = ("inspect", config, "--pipeline", "parcels")
    require_readable(inspect, walk_with_spark(inspect))
