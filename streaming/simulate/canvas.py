"""What all pictures of the simulation share: colours, panels, and the paper's maximum."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000")
PAPER = "#666666"
# What the text of the paper says (sections 4.2 to 4.4); its plots are not to be had as numbers.
PAPER_STRETCH_MOST = {8: 2.5, 64: 5.0}


def blank(columns: int = 1) -> tuple[Figure, list[Any]]:
    """An empty picture and its panels, side by side."""
    picture = Figure(figsize=(6.8 if columns == 1 else 10.5, 4.2), layout="constrained")
    axes = picture.subplots(1, columns, squeeze=False)[0]
    return picture, list(axes)
