"""What README and examples show must work."""

import re
from pathlib import Path

from streaming.config import load_config, parse_config

ROOT = Path(__file__).parents[2]


def test_example_configurations_are_sound():
    found = sorted((ROOT / "examples").glob("*.toml"))
    assert found
    for path in found:
        load_config(path, {})


def test_the_readme_shows_a_sound_configuration():
    import tomllib

    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        parse_config(tomllib.loads(block), {}, "README.md")


def test_pages_that_the_readme_names_exist():
    for page in re.findall(r"\]\((docs/[a-z-]+\.md)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / page).exists(), page
