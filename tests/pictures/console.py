"""Screenshots of the console's views, each in light, dark and as wide as a phone, on three sheets.

    heavy … python -m tests.pictures.console

runs a service and its console (`shop`), writes docs/figures/console-light.png, -dark.png, -phone.png,
-channel.png and tutorial-blocked.png, and says how long it took from an alert to a released channel (`walk`).
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page

from tests.browser import PHONE, WIDE, opened
from tests.console_helpers import code_of
from tests.pictures import walk
from tests.pictures.shop import TOKEN, shop

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
SHEETS: dict[str, tuple[Any, Any, int, int]] = {
    "light": (WIDE, "light", 3, 620),
    "dark": (WIDE, "dark", 3, 620),
    "phone": (PHONE, "light", 8, 230),
}
"""Of each sheet: the window, the colours, how many views stand in a row, and their width there."""
COLOURS_MAX = 256
GAP = 10
WAIT_SECONDS_MAX = 60
LINES_SECONDS = 20
"""For so long the shop works before it is looked at, so that the overview has lines."""


def views() -> list[Callable[[Page], None]]:
    """Return what brings a page to each view."""
    own = ["blocked", f"channel/{code_of(b'IBM')}", "disorder", "records", "events", "rejects"]
    of_groups = ["groups", f"group/{code_of(b'G2')}", f"subscriber/{code_of(b'D')}"]
    paths = ["/", *(f"/p/trades/{each}" for each in own)]
    paths += [*(f"/p/market/{each}" for each in of_groups), "/p/floor/groups"]
    return [*(_at(path) for path in paths), _waiting, _record, _release, _change, _at("/login")]


def _at(path: str) -> Callable[[Page], None]:
    return lambda page: _go(page, path)


def _go(page: Page, path: str) -> None:
    page.goto(path)
    if path.endswith("groups"):
        page.wait_for_load_state("networkidle")


def _record(page: Page) -> None:
    _go(page, "/p/trades/records?key=IBM&label=3")
    page.get_by_role("region", name="Records").get_by_role("link").first.click()


def _waiting(page: Page) -> None:
    """Subscribers wait for what is on its way: for a batch or so, again and again."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    _go(page, "/p/floor/blocked")
    while page.get_by_role("row").count() < 2:
        assert time.monotonic() < deadline, "nobody waits on the floor"
        _go(page, "/p/floor/blocked")


def _release(page: Page) -> None:
    _go(page, "/p/trades/blocked?q=IBM")
    page.get_by_role("button", name="Release IBM").click()
    page.get_by_role("button", name="Release", exact=True).wait_for()


def _change(page: Page) -> None:
    _go(page, "/p/market/groups")
    page.get_by_label("Group", exact=True).fill("G9")
    page.get_by_role("textbox", name="Members").fill("A, B, J")
    page.get_by_role("button", name="Show the effect").click()
    page.get_by_role("img", name="as they would be then").wait_for()


def log_in(page: Page) -> None:
    """Begin a session."""
    page.goto("/login")
    page.get_by_label("Your name").fill("ann")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()


def take(page: Page) -> None:
    """Look at every view, and put what was seen on sheets."""
    for name, (window, scheme, columns, width) in SHEETS.items():
        page.set_viewport_size(window)
        page.emulate_media(color_scheme=scheme)
        shots = []
        for visit in views():
            visit(page)
            shots.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
        sheet(shots, columns, width).save(FIGURES / f"console-{name}.png", optimize=True)
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")
    singles = {
        "console-channel": (f"/p/trades/channel/{code_of(b'IBM')}", WIDE["width"], 560),
        "tutorial-blocked": ("/p/parcels/blocked", 900, 300),
    }
    for name, (path, width, height) in singles.items():
        _go(page, path)
        clip: Any = {"x": 0, "y": 0, "width": width, "height": height}
        page.screenshot(path=FIGURES / f"{name}.png", clip=clip)


def sheet(shots: list[Image.Image], columns: int, width: int) -> Image.Image:
    """Put pictures of one size side by side, made smaller."""
    high = round(shots[0].height * width / shots[0].width)
    rows = -(-len(shots) // columns)
    whole = Image.new(
        "RGB", (columns * (width + GAP) - GAP, rows * (high + GAP) - GAP), (128, 128, 128)
    )
    for at, shot in enumerate(shots):
        place = (at % columns * (width + GAP), at // columns * (high + GAP))
        whole.paste(shot.resize((width, high), Image.Resampling.LANCZOS), place)
    return whole.quantize(COLOURS_MAX)


def main(steps: Path | None) -> None:
    """Run it all; ``steps``: a folder for what was seen at each step of the walks."""
    with shop() as running:
        time.sleep(LINES_SECONDS)
        address = f"http://127.0.0.1:{running.port}"
        with opened(address) as page:
            log_in(page)
            take(page)
            assert page.said == [], page.said  # type: ignore[attr-defined]
        for window, size, key in (("desktop", WIDE, "IBM"), ("phone", PHONE, "MSFT")):
            with opened(address) as page:
                log_in(page)
                page.set_viewport_size(size)
                print(f"{window}: {walk.walk(page, running.port, 'trades', key, steps, window)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
