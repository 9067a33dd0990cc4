"""A barrier: dan sends eve news and telephones her; she acts when her barrier has passed.

Needs no node and no command. The other way round, dan may want to know that his news is in the
order before he telephones: that his own barrier has passed tells him.
"""

import sys

from streaming import MulticastSender, OrderedConsumer


def main(address: str = "localhost:9092", pipeline: str = "bus") -> None:
    """Eve is called, flushes what was sent to her, and then knows that she has it all."""
    kafka = {"bootstrap.servers": address}
    with MulticastSender(kafka, f"{pipeline}.in", "dan") as dan:
        for number in range(3):
            dan.send(["eve"], f"news {number}")
    # Now dan telephones: "act on news 2". It may be anywhere between Kafka and eve.
    with (
        MulticastSender(kafka, f"{pipeline}.in", "eve") as eve,
        OrderedConsumer(
            kafka,
            [f"{pipeline}.out"],
            discipline="multicast",
            group=f"{pipeline}-eve",
            keys=["eve"],
        ) as consumer,
    ):
        barrier = eve.barrier()
        for delivery in barrier.before(consumer, limit_s=120):
            print(f"eve got {(delivery.value or b'').decode()}")
        print("eve has all that was sent before the call")
        consumer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
