"""The table of `docs/reliability.md`, made from what runs measured: `python -m tests.chaos.table`."""

import json
import statistics
from pathlib import Path

from tests.chaos.catalogue import FAULTS, GROUPS
from tests.chaos.traffic import NAMES

DOCS = Path(__file__).parents[2] / "docs"
MEASURED, PAGE = DOCS / "reliability.json", DOCS / "reliability.md"
BEGIN, END = "<!-- rows: {} -->", "<!-- end of rows -->"


def add(path, rows):
    """Add rows to a file; those of faults that are no longer there leave it."""
    known = json.loads(path.read_text()) if path.exists() else []
    kept = [row for row in [*known, *rows] if row["fault"] in FAULTS]
    path.write_text("".join(["[\n", ",\n".join(map(json.dumps, kept)), "\n]\n"]))


def lines(rows):
    """Lines of Markdown: a row for each fault, its seconds for each pipeline."""
    yield "| fault | it may | times | outcome | " + " | ".join(NAMES) + " | alone |"
    yield "| --- " * (len(NAMES) + 5) + "|"
    for name, fault in FAULTS.items():
        of_it = [row for row in rows if row["fault"] == name]
        if of_it:
            yield _line(name, fault, of_it)


def _line(name, fault, rows):
    seconds = {each: [r["seconds"] for r in rows if r["pipeline"] == each] for each in NAMES}
    times = max(map(len, seconds.values()))
    outcomes = " / ".join(sorted({row["outcome"] for row in rows}))
    figures = " | ".join(map(_figure, seconds.values()))
    alone = f'`--fault "{name}"`'
    return f"| {name} | {fault.allowed()} | {times} | {outcomes} | {figures} | {alone} |"


def _figure(seconds):
    """The median, and the most where there are several."""
    if not seconds:
        return ""
    most = f" ({max(seconds):.1f})" if len(seconds) > 1 else ""
    return f"{statistics.median(seconds):.1f}{most}"


def page(text, rows):
    """The page's text with the rows of each group in their places, as far as it has these."""
    for group, faults in GROUPS.items():
        begin = BEGIN.format(group)
        if begin not in text:
            continue
        before, _, rest = text.partition(begin + "\n")
        _, _, after = rest.partition(END)
        names = {fault.name for fault in faults}
        some = "\n".join(lines([row for row in rows if row["fault"] in names]))
        text = f"{before}{begin}\n{some}\n{END}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), json.loads(MEASURED.read_text())))
