"""The table of planted faults in `docs/reliability.md`: `python -m tests.simulated.table`.

It is made from what `python -m tests.simulated --planted all --json docs/planted.json` noted.
"""

import json
from pathlib import Path

from tests.simulated.finding import AIMS, PLANTS

DOCS = Path(__file__).parents[2] / "docs"
FOUND, PAGE = DOCS / "planted.json", DOCS / "reliability.md"
BEGIN, END = "<!-- rows: planted -->", "<!-- end of rows -->"


def add(path, name, found):
    """Note what found a plant; plants that are no longer there leave the file."""
    known = json.loads(path.read_text()) if path.exists() else {}
    known[name] = found
    kept = {each: known[each] for each in sorted(known) if each in PLANTS}
    lines = (f"{json.dumps(each)}: {json.dumps(found)}" for each, found in kept.items())
    path.write_text("".join(["{\n", ",\n".join(lines), "\n}\n"]))


def lines(known):
    """Lines of Markdown."""
    yield "| planted fault | histories | seed | what it found |"
    yield "| --- | --- | --- | --- |"
    for name, found in known.items():
        tried = f"not found in {found['seeds']}"
        seed = tried if found["seed"] is None else found["seed"]
        said = found["said"].replace("|", "/")
        yield f"| {name.replace('-', ' ')} | {AIMS[name]} | {seed} | {said} |"


def page(text, known):
    """The page's text with the rows in their place."""
    before, _, rest = text.partition(BEGIN + "\n")
    _, _, after = rest.partition(END)
    rows = "\n".join(lines(known))
    return f"{before}{BEGIN}\n{rows}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), json.loads(FOUND.read_text())))
