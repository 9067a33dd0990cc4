"""Brokers of other versions than the embedded one's, from the same registry."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

from streaming.kafka import embedded, jars

VERSIONS = ("3.3.2", "3.6.2", "3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0")
"""From the oldest that is claimed to the newest that the registry has, one of each line."""

IVY = """\
<ivy-module version="2.0">
  <info organisation="spark-sequencer" module="kafka-{version}"/>
  <configurations><conf name="broker"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="broker->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="broker->default"/>{more}
  </dependencies>
</ivy-module>
"""
LOG4J = """
    <dependency org="ch.qos.reload4j" name="reload4j" rev="1.2.25" conf="broker->default"/>"""
"""Brokers before 4.0 ask it for their loggers, and do not name it."""


def jars_of(version: str) -> list[Path]:
    """The jars of a broker, fetched where they are not there."""
    more = LOG4J if version.startswith("3") else ""
    with tempfile.TemporaryDirectory() as folder:
        ivy = Path(folder, f"Kafka {version}")
        ivy.write_text(IVY.format(version=version, more=more))
        return jars.fetched("broker", ivy)


def broker_of(version: str, **settings: object) -> embedded.EmbeddedBroker:
    """A broker of this version that runs; whoever asks for it closes it."""
    found = jars_of(version)
    broker = embedded.EmbeddedBroker(**settings)  # type: ignore[arg-type]
    with mock.patch.object(embedded, "broker_classpath", return_value=found):
        return broker.start()
