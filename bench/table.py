"""Draws the first table of docs/performance.md: rates beside the copy of the same run.

python bench/table.py docs/performance.md docs/figures/performance.png
"""

import re
import sys
from pathlib import Path

from matplotlib.figure import Figure

ROW = re.compile(r"^\| ([^|]+?) \| ([0-9,]+) \| ([0-9.]+) \|", re.MULTILINE)


def draw(page: Path, picture: Path) -> None:
    """Draw a bar for each row, as long as its ratio; the copy is the line at 1."""
    rows = ROW.findall(page.read_text(encoding="utf-8").partition("\n## ")[0])
    names = [name for name, _, _ in rows]
    ratios = [float(ratio) for _, _, ratio in rows]
    figure = Figure(figsize=(8, 0.42 * len(rows) + 0.9), layout="constrained")
    axes = figure.subplots()
    axes.barh(names, ratios, color="#0072b2")
    axes.axvline(1, color="#666666", linewidth=1.5)
    axes.text(1, -0.75, "the copy", ha="center", color="#666666")
    for place, (_, rate, _) in enumerate(rows):
        axes.text(0.02, place, f"{rate}/s", va="center", color="white")
    axes.invert_yaxis()
    axes.set_xlabel("rate, of a stateless Spark copy")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
