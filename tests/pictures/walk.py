"""From an alert to a released channel, as somebody does it who sees each page for the first time.

What the machine takes is measured. What a person takes is reckoned by the keystroke-level model (Card,
Moran and Newell): every word from a page's heading down to what is clicked is read, each click is
decided, pointed at and pressed, and the reason is one that a button says.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Locator, Page

from streaming.console.actions import REASONS

ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yml"
ALERT = (
    "<p>SequencerChannelBlocked<br>trades: a message has waited 6 minutes for a missing one<br>"
    '<a href="{at}">console_url</a></p>'
)
WORDS_A_SECOND = 4.0
"""Of silent reading, 238 words a minute (Brysbaert 2019, the mean of 190 studies)."""
TRIES_MAX = 100
CLICK_SECONDS = 1.35 + 1.1 + 0.2
"""To decide, to point, to press."""


@dataclass
class Walk:
    """Seconds that the machine took for each step, and those that a person is reckoned with."""

    machine: list[float] = field(default_factory=list)
    words: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        """The sum, and its parts."""
        waited = sum(self.machine)
        parts = ", ".join(f"{each:.2f}" for each in self.machine)
        reading = sum(self.words) / WORDS_A_SECOND
        clicks = CLICK_SECONDS * len(self.machine)
        return (
            f"{waited + reading + clicks:.1f} s: the machine {waited:.1f} s ({parts}), reading "
            f"{' + '.join(map(str, self.words))} words {reading:.1f} s, "
            f"{len(self.machine)} clicks {clicks:.1f} s"
        )


def walk(page: Page, port: int, pipeline: str, key: str, steps: Path | None, window: str) -> Walk:
    """Go from the alert's link until the delivery is seen; three clicks."""
    done = Walk()
    (led, *_) = re.findall(r"console_url: (\S.*)", ALERTS.read_text())
    at = led.replace("{{ $labels.pipeline }}", pipeline).replace("8484", str(port))
    page.route(
        "http://alerts.example/",
        lambda route: route.fulfill(body=ALERT.format(at=at), content_type="text/html"),
    )
    page.goto("http://alerts.example/")

    release = page.get_by_role("button", name=f"Release {key}")
    do_it = page.get_by_role("button", name=f"Release: {REASONS[0]}")
    freed = page.get_by_text("was given up")

    def step(target: Locator, seen: Callable[[], None]) -> None:
        """Read down to it, click it, and wait until what it brings is seen."""
        if steps is not None:
            page.screenshot(path=steps / f"{window}-{len(done.machine)}.png")
        done.words.append(_words(page, target))
        began = time.monotonic()
        target.click()
        seen()
        done.machine.append(time.monotonic() - began)

    step(page.get_by_role("link", name="console_url"), release.wait_for)
    step(release, do_it.wait_for)
    step(do_it, freed.wait_for)
    if steps is not None:
        page.screenshot(path=steps / f"{window}-{len(done.machine)}.png")
    return done


def _words(page: Page, target: Locator) -> int:
    """How many words stand between a page's heading and what is clicked."""
    top = page.locator("h1").or_(page.locator("body")).last.bounding_box()
    assert top is not None
    # A row of a live list has no place at the moment in which it is drawn anew.
    end = next(box for _ in range(TRIES_MAX) if (box := target.bounding_box()))
    said: str = page.evaluate(
        """([top, end]) => {
            const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            const found = [];
            while (walker.nextNode()) {
                const range = document.createRange();
                range.selectNode(walker.currentNode);
                const box = range.getBoundingClientRect();
                if (box.height && box.top >= top - 1 && box.top <= end) found.push(range.toString());
            }
            return found.join(" ");
        }""",
        [top["y"], end["y"] + end["height"]],
    )
    return len(said.split())
