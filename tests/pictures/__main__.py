"""`python -m tests.pictures`: draw the documentation's pictures anew, from the code and a recorded run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.pictures import moves, recording, states

FIGURES = Path(__file__).parents[2] / "docs" / "figures"


def drawn() -> dict[str, str]:
    """Return each picture by the name of its file."""
    found = {"channel-states.svg": states.draw(states.edges())}
    for name, steps in json.loads(recording.FILE.read_text()).items():
        found[f"{name}-moves.svg"] = moves.animated(name, steps)
        found[f"{name}-steps.svg"] = moves.stepped(name, steps)
    return found


if __name__ == "__main__":
    for name, text in drawn().items():
        (FIGURES / name).write_text(text)
