"""Screenshots of the console's views, each in light, dark and as wide as a phone, on three sheets.

    python -m tests.pictures.console http://127.0.0.1:8484 TOKEN CHANNELS GROUPS

writes docs/figures/console-light.png, -dark.png and -phone.png of a console that runs there; the
others are names of a channel pipeline, with a channel IBM, and of a group pipeline.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image

from tests.browser import PHONE, WIDE, opened
from tests.console_helpers import code_of

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
SHEETS = {
    "light": (WIDE, "light", 3, 620),
    "dark": (WIDE, "dark", 3, 620),
    "phone": (PHONE, "light", 5, 250),
}
"""Of each sheet: the window, the colours, how many views stand in a row, and their width there."""
COLOURS_MAX = 256
GAP = 10


def views(channels: str, groups: str) -> list[str]:
    """Return the addresses of the views."""
    own = ["blocked", f"channel/{code_of(b'IBM')}", "disorder", "records", "events", "rejects"]
    of_groups = ["groups", f"group/{code_of(b'G0')}", f"subscriber/{code_of(b'B')}"]
    return [
        "/",
        *(f"/p/{channels}/{each}" for each in own),
        *(f"/p/{groups}/{each}" for each in of_groups),
    ]


def main(address: str, token: str, channels: str, groups: str) -> None:
    """Log in, look at every view, and put what was seen on sheets."""
    with opened(address) as page:
        page.goto("/login")
        page.get_by_label("Your name").fill("ann")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        for name, (window, scheme, columns, width) in SHEETS.items():
            page.set_viewport_size(window)
            page.emulate_media(color_scheme=scheme)
            shots = []
            for path in views(channels, groups):
                page.goto(path)
                page.wait_for_load_state("networkidle") if path.endswith("groups") else None
                shots.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
            sheet(shots, columns, width).save(FIGURES / f"console-{name}.png", optimize=True)
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")
        page.goto(views(channels, groups)[2])
        page.screenshot(
            path=FIGURES / "console-channel.png", clip={"x": 0, "y": 0, **WIDE, "height": 560}
        )
        assert page.said == [], page.said


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


if __name__ == "__main__":
    main(*sys.argv[1:])
