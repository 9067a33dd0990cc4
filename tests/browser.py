"""A headless Chromium for tests that look at pages: Playwright's Python package and the system's browser."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_MS_MAX = 120_000
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
SERIOUS = ("serious", "critical")


def program() -> str | None:
    """Return the path of the system's Chromium; None where it has none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def missing() -> str:
    """Return why pages cannot be looked at here; empty where they can."""
    return "" if program() else "Chromium is not installed (Debian's package chromium)"


@contextmanager
def opened(at: str = "") -> Iterator[Page]:
    """Give a page of a browser that has never been anywhere; ``at``: the address that paths begin with.

    The page's attribute ``said`` lists what went wrong in it: scripts' errors, and what the
    content's policy refused.
    """
    with tempfile.TemporaryDirectory(prefix="browser-") as folder, sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            folder, executable_path=program(), args=FLAGS, viewport=WIDE, base_url=at or None
        )
        try:
            context.set_default_timeout(WAIT_MS_MAX)
            page: Any = context.pages[0]
            page.said = []
            page.on("pageerror", lambda error: page.said.append(str(error)))
            page.on("console", lambda each: page.said.append(each.text) if _is_bad(each) else None)
            yield page
        finally:
            context.close()


def _is_bad(message: Any) -> bool:
    """Whether a line of the browser's console is a fault of the page, not an answer's status."""
    return message.type == "error" and not message.text.startswith("Failed to load resource")


def barriers(page: Page, *rules: str) -> list[str]:
    """Return what keeps somebody from using a page, as axe sees it: serious and critical findings.

    ``rules``: only these of axe's.
    """
    options: dict[str, Any] = {"iframes": False}  # ours are pictures, where no script runs
    options |= {"runOnly": list(rules)} if rules else {}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: {node['html'][:200]}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"][:3]
    ]
