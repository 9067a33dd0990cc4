"""Programs of users are type-checked against the clients, as `py.typed` promises."""

import subprocess
import sys

USE = """
from streaming import LabelledProducer, OrderedConsumer
from streaming.clients import AsyncConsumer, AsyncSender, Retry

with OrderedConsumer({}, ["t"], discipline="group", group="g") as reader:
    parallel = reader.parallel(3, retry=Retry(tries=2), rejects="r")
    parallel.run(lambda delivery: print(delivery.sequence))
    parallel.run("no function")

async def work() -> None:
    async with AsyncSender(LabelledProducer({}, "t")) as producer:
        await producer.send("K", b"1", fin=True)
        await producer.send("K", value=1)
    async with AsyncConsumer(OrderedConsumer({}, ["t"], discipline="group", group="g")) as given:
        async for delivery in given:
            print(delivery.sequence, await given.commit())
"""


def test_mypy_finds_the_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(USE)
    words = [sys.executable, "-m", "mypy", "--strict", "--no-color-output", program.name]
    found = subprocess.run(
        words, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=250
    )
    (error, of_value, summary) = found.stdout.splitlines()
    assert error.startswith("program.py:8: error:"), found.stdout
    assert "Callable[[GroupDelivery | ChangeNotice], object]" in error
    assert of_value.startswith('program.py:13: error: Argument "value" to "send"'), found.stdout
    assert summary.startswith("Found 2 errors")
