"""Programs of users are type-checked against the clients, as `py.typed` promises."""

import subprocess
import sys

USE = """
from streaming import OrderedConsumer
from streaming.clients import Retry

with OrderedConsumer({}, ["t"], discipline="group", group="g") as reader:
    parallel = reader.parallel(3, retry=Retry(tries=2), rejects="r")
    parallel.run(lambda delivery: print(delivery.sequence))
    parallel.run("no function")
"""


def test_mypy_finds_the_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(USE)
    words = [sys.executable, "-m", "mypy", "--strict", "--no-color-output", program.name]
    found = subprocess.run(
        words, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=250
    )
    (error, summary) = found.stdout.splitlines()
    assert error.startswith("program.py:8: error:"), found.stdout
    assert "Callable[[GroupDelivery | ChangeNotice], object]" in error
    assert summary.startswith("Found 1 error")
