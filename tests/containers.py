"""The one Kafka of a run of tests: in a container where a Docker engine answers, else embedded.

SEQUENCER_TEST_CONTAINERS=0: no container; =1: a container, or the tests fail.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streaming.kafka.embedded import SETTINGS, EmbeddedBroker, serves
from streaming.kafka.ports import free_port

ASKED = "SEQUENCER_TEST_CONTAINERS"
ENGINE_SECONDS_MAX = 5
START_SECONDS_MAX = 120
IVY = Path(__file__).parents[1] / "streaming" / "kafka" / "ivy.xml"
CONTROLLER_PORT = 9093


@contextmanager
def kafka(properties: dict[str, str]) -> Iterator[str]:
    """A broker's address, while it runs."""
    asked = os.environ.get(ASKED)
    with ExitStack() as stack:
        bootstrap = None
        if asked == "1" or (asked != "0" and engine_answers()):
            try:
                bootstrap = stack.enter_context(in_container(properties))
            except Exception as error:
                if asked == "1":
                    raise
                print(f"Kafka is embedded; no container: {error}", file=sys.stderr)
        yield bootstrap or stack.enter_context(EmbeddedBroker(properties=properties)).bootstrap


def engine_answers() -> bool:
    """Whether there is a Docker engine that may be asked."""
    import docker

    try:
        return bool(docker.from_env(timeout=ENGINE_SECONDS_MAX).ping())
    except docker.errors.DockerException:
        return False


@contextmanager
def in_container(properties: dict[str, str]) -> Iterator[str]:
    """A broker's address, while its container runs."""
    from testcontainers.core.container import DockerContainer

    port = free_port()
    container = DockerContainer(image()).with_bind_ports(port, port)
    with container.with_envs(**variables(port, properties)):
        bootstrap, deadline = f"localhost:{port}", time.monotonic() + START_SECONDS_MAX
        while not serves(bootstrap):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{image()} does not answer within {START_SECONDS_MAX} s")
            time.sleep(0.5)
        yield bootstrap


def image() -> str:
    """The image, of the version that the embedded broker has."""
    (tested,) = re.findall(r'name="kafka_2.13" rev="([^"]+)"', IVY.read_text())
    return f"apache/kafka:{tested}"


def variables(port: int, properties: dict[str, str]) -> dict[str, str]:
    """The embedded broker's settings, and these, as the image's environment has them."""
    settings = {
        **SETTINGS,
        "listeners": f"PLAINTEXT://:{port},CONTROLLER://:{CONTROLLER_PORT}",
        "advertised.listeners": f"PLAINTEXT://localhost:{port}",
        "controller.quorum.voters": f"1@localhost:{CONTROLLER_PORT}",
        **properties,
    }
    return {f"KAFKA_{name.upper().replace('.', '_')}": text for name, text in settings.items()}
