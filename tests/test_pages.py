"""Pages lead to each other and show all figures; no link of theirs leads nowhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def name(path):
    return path.relative_to(ROOT).as_posix()


def links(page):
    """(text, target) of each link to a file of the repository."""
    for text, target in re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", page.read_text()):
        if not re.match(r"[a-z]+:", target):
            yield text, target


def anchor(heading):
    """The anchor that a heading gets: lower case, words joined by '-'."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for text, target in links(page):
        path, _, part = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"[{text}]({target}): no such file"
        if part:
            assert part in anchors(file), f"[{text}]({target}): no such heading"


def test_every_page_is_linked_from_another():
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for _, target in links(page)
        if not target.startswith("#")
    }
    alone = [name(page) for page in PAGES if page not in linked and page.name != "README.md"]
    assert not alone, f"no page leads to {alone}"


def test_figures_are_shown():
    linked = {(page.parent / target).resolve() for page in PAGES for _, target in links(page)}
    unused = [name(path) for path in sorted(ROOT.glob("docs/figures/*")) if path not in linked]
    assert not unused, f"no page shows {unused}"
