"""The documentation site: links lead somewhere, nothing comes from outside, search needs no server."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import browser

ROOT = Path(__file__).parents[1]
FROM_OUTSIDE = re.compile(r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("sphinx") is None, reason="make site installs its generator"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built anew; a warning (a link that leads nowhere, a page out of reach) is an error."""
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-c", "docs/site"]
    built = subprocess.run(
        [sys.executable, *words, ".", folder], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_nothing_comes_from_outside(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    loaded = {each: FROM_OUTSIDE.findall(each.read_text()) for each in pages}
    assert {page: found for page, found in loaded.items() if found} == {}
    styles = "".join(each.read_text() for each in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?(https?:)?//|@import", styles)


@pytest.mark.skipif(bool(browser.missing()), reason=browser.missing())
def test_it_is_searched_without_a_server_and_fits_a_phone(site):
    with browser.opened() as page:
        page.goto(site.as_uri() + "/index.html")
        page.wait_for_url("**/docs/site/index.html")
        page.get_by_placeholder("Search").fill("incarnation")
        page.keyboard.press("Enter")
        page.locator("#search-results").get_by_role("link", name="Channels", exact=True).click()
        page.wait_for_url("**/docs/channels.html*")
        page.set_viewport_size(browser.PHONE)
        for name in ("site/index", "channels", "reference", "console"):
            page.goto(f"{site.as_uri()}/docs/{name}.html")
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{name} is wider than a phone by {wide} pixels"
        assert page.said == []
