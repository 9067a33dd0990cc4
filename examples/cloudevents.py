"""CloudEvents over Kafka (binary mode): each source's events in the order of their `sequence`.

The service needs no code for it, only `channel` and `label` of the pipeline `events` in
examples/clients.toml. Headers go through as they are, OpenTelemetry's `traceparent` among them. In
each run the meters count from 1 again: the header `epoch` says so.
"""

import sys
import time

from confluent_kafka import Producer

from streaming import OrderedConsumer

EPOCH = b"%d" % (time.time() * 1000)
TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def headers(source: str, sequence: int) -> list[tuple[str, bytes]]:
    """An event's attributes as the Kafka binding of CloudEvents writes them."""
    return [
        ("ce_specversion", b"1.0"),
        ("ce_id", f"{source}-{sequence}".encode()),
        ("ce_source", source.encode()),
        ("ce_type", b"com.example.reading"),
        ("ce_sequence", b"%010d" % sequence),
        ("traceparent", TRACE),
        ("epoch", EPOCH),
    ]


def main(address: str = "localhost:9092", pipeline: str = "events") -> None:
    """Send events of two meters in the wrong order, and read them in the right one."""
    kafka = {"bootstrap.servers": address}
    producer = Producer(kafka)
    for source, sequence in [("/a", 2), ("/b", 1), ("/a", 3), ("/b", 2), ("/a", 1)]:
        value = b"%d kWh" % sequence
        producer.produce(f"{pipeline}.in", value, key=source, headers=headers(source, sequence))
    producer.flush(60)
    with OrderedConsumer(
        kafka,
        [f"{pipeline}.out"],
        group=f"{pipeline}-example",
        channel=lambda event: event.header("ce_source"),
    ) as consumer:
        left = 5
        while left:
            event = consumer.poll(120)
            assert event is not None, "is the service running?"
            left -= event.header("epoch") == EPOCH  # a run that was killed may have left some
            print((event.header("ce_id") or b"").decode(), (event.value or b"").decode())
        consumer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
