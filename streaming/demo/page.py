"""One HTML file about a run of the demo: no script, nothing from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from streaming.config import Config
from streaming.graph import charts, lanes
from streaming.kafka.newest import Found, search

LANES, ARRIVALS = 3, 40
STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1c2024;--quiet:#5a6169;--blue:#1f5fa8;
--amber:#8a5a00;--red:#b3261e;--green:#1b6b3a}
@media(prefers-color-scheme:dark){:root{--paper:#15181b;--ink:#e6e8ea;--quiet:#a2a9b0;--blue:#82b4f0;
--amber:#e5b45a;--red:#ff9a91;--green:#7fcf9b}}
body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;margin:2rem auto;
max-width:72rem;padding:0 1rem}
figure{margin:0 0 1.5rem;overflow-x:auto}figcaption,dt{color:var(--quiet)}
dl{display:flex;flex-wrap:wrap;gap:.6rem 2.4rem}dd{margin:0;font-size:1.2rem}
.row{display:flex;flex-wrap:wrap;gap:1rem 3rem}
.curve{fill:none;stroke:var(--blue);stroke-width:1.5}
.lanes text{fill:var(--ink);font-size:11px;text-anchor:middle}.lanes .lane-name{text-anchor:start}
.way{stroke:var(--quiet);stroke-width:1.2}.way.waited{stroke:var(--amber);stroke-width:2}
.mark{fill:var(--green);stroke:var(--green);stroke-width:2}
.mark.held{fill:none;stroke:var(--amber)}.mark.rejected{fill:none;stroke:var(--red);stroke-width:3}
"""


@dataclass
class Course:
    """What was seen of a run: at each moment (s) the counts since it began."""

    at: list[float] = field(default_factory=list)
    counts: dict[str, list[int]] = field(default_factory=dict)

    def note(self, at: float, **counts: int) -> None:
        """Add a moment."""
        self.at.append(at)
        for name, count in counts.items():
            self.counts.setdefault(name, []).append(count)

    def rates(self, name: str) -> list[float]:
        """Return a count's growth in a second, between each moment and the next."""
        counts = self.counts.get(name, [])
        return [
            (counts[row + 1] - counts[row]) / max(self.at[row + 1] - self.at[row], 1e-3)
            for row in range(len(counts) - 1)
        ]


def write(
    path: Path,
    title: str,
    counts: Mapping[str, int],
    course: Course,
    pictures: Sequence[tuple[str, str]],
) -> None:
    """Write the page: the last ``counts``, the ``course``, and pictures (caption, SVG)."""
    figures = "".join(
        f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>"
        for caption, svg in pictures
    )
    numbers = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{count:,}</dd></div>" for name, count in counts.items()
    )
    curves = [
        ("records in, a second", course.rates("in")),
        ("delivered, a second", course.rates("delivered")),
        ("held", [float(count) for count in course.counts.get("held", [])]),
    ]
    drawn = "".join(
        f"<figure><figcaption>{name}; at most {max(values, default=0):,.0f}</figcaption>"
        f"{charts.line(values, name)}</figure>"
        for name, values in curves
    )
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        f'<h1>{escape(title)}</h1><dl>{numbers}</dl><div class="row">{drawn}</div>{figures}</html>',
        encoding="utf-8",
    )


def lanes_of(config: Config, name: str, keys: Sequence[bytes]) -> list[tuple[str, str]]:
    """Draw the lanes of channels of a pipeline, those whose newest records came least in order."""
    settings = config.pipelines[name]
    wanted = set(keys)

    def of_them(record: Found) -> bool:
        return record.key in wanted

    found = [
        search(config, topics, of_them, 20_000).records
        for topics in (settings.input, [settings.output], [settings.rejects])
    ]
    drawn = []
    for key in keys:
        arrived_records, out, no = (
            [each for each in records if each.key == key] for records in found
        )
        reasons = {place_of(each): each.text("reject-reason") for each in no}
        arrived = [(each.place_text, each.text("label"), "") for each in arrived_records[:ARRIVALS]]
        delivered = [("", each.text("label"), "") for each in out[:ARRIVALS]]
        fates, rows = lanes.matched(arrived, delivered, reasons)
        above = [
            lanes.Arrival(place, label, "", 0, fate, reasons.get(place, ""))
            for (place, label, _), fate in zip(arrived, fates, strict=True)
        ]
        below = [
            lanes.Delivery(each.place_text, label, each.text("sequence"), row)
            for (_, label, _), row, each in zip(delivered, rows, out, strict=False)
        ]
        crossings = sum(abs(row - at) for at, row in enumerate(rows) if row is not None)
        drawn.append((crossings, key.decode(errors="replace"), lanes.draw(above, below, "lanes")))
    drawn.sort(key=lambda each: -each[0])
    return [
        (f"channel {key}: as it arrived, and as it was delivered", svg)
        for _, key, svg in drawn[:LANES]
    ]


def place_of(reject: Found) -> str:
    """Return where a reject stood in the input."""
    parts = [reject.text(f"reject-{each}") for each in ("topic", "partition", "offset")]
    return f"{parts[0]}/{parts[1]}@{parts[2]}"
