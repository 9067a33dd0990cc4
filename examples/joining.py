"""A sender that is joined in mid-stream, and a reader that knows when it has everything.

The sensor has been at work for long, so nobody knows which label is the first one here: the
service waits for `settle`, and begins with the lowest that has come. A note without a label has no
place among the readings, and waits for none of them. Progress marks say until when all was read.
"""

import sys
import time

from confluent_kafka import Producer

from streaming import OrderedConsumer


def main(address: str = "localhost:9092", pipeline: str = "readings") -> None:
    """A sensor sends, one reading too early; a reader reads until nothing more is to come."""
    kafka = {"bootstrap.servers": address}
    again = ("epoch", b"%d" % (time.time() * 1000))  # in another run its labels begin again
    sensor = Producer({**kafka, "linger.ms": 100})
    for label in (b"7001", b"7000", None, b"7002"):
        value, headers = (b"reading " + label, [("label", label)]) if label else (b"a note", [])
        sensor.produce(f"{pipeline}.in", value, b"sensor", headers=[*headers, again])
    assert sensor.flush(60) == 0
    last, left = 0, 4
    with OrderedConsumer(kafka, [f"{pipeline}.out"], group=f"{pipeline}-reader") as consumer:
        while left:
            delivery = consumer.poll(120)
            assert delivery is not None, "is the service running?"
            print((delivery.value or b"").decode())
            last = max(last, delivery.timestamp)
            left -= delivery.header("epoch") == again[1]  # a run that was killed may have left some
        for _ in range(120):
            if (consumer.complete_until() or 0) >= last:
                print("this is all that was sent so far")
                consumer.commit()
                return
            assert consumer.poll(1) is None
    raise SystemExit("no mark has come")


if __name__ == "__main__":
    main(*sys.argv[1:])
