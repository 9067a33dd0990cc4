"""Orders billed by eight threads: customers side by side, each customer's orders in their order.

The billing service is away for one customer at first, and refuses another one's order for good.
"""

import sys
import threading
import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from streaming import LabelledProducer, OrderedConsumer
from streaming.clients import Delivery, Retry

CUSTOMERS = [f"customer-{number}" for number in range(12)]
ORDERS = 5
HANDLER_SECONDS = 0.01


class RefusedError(Exception):
    """No try will help."""


class Billing:
    """A slow service elsewhere, and what it has billed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.billed: dict[str, list[tuple[int, int]]] = {}
        self.failures = 0

    def bill(self, customer: str, run: int, order: int) -> None:
        """Bill an order of a run of this program; raises an OSError or a RefusedError."""
        time.sleep(HANDLER_SECONDS)
        if customer == "customer-1" and order == 3:
            raise RefusedError("the order has no price")
        with self.lock:
            if customer == "customer-2" and self.failures < 3:
                self.failures += 1
                raise OSError("no route to the bank")
            self.billed.setdefault(customer, []).append((run, order))


def make_topic(kafka: dict[str, str], name: str) -> None:
    """Create a topic, unless it is there."""
    admin = AdminClient({**kafka, "log_level": "4"})
    try:
        admin.create_topics([NewTopic(name, 1)])[name].result(60)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def main(
    address: str = "localhost:9092", pipeline: str = "orders", failed: str = "orders.failed"
) -> None:
    """Send some orders, then bill them."""
    kafka = {"bootstrap.servers": address}
    make_topic(kafka, failed)
    with LabelledProducer(kafka, f"{pipeline}.in") as producer:
        for order in range(ORDERS):
            for customer in CUSTOMERS:
                producer.send(customer, str(order))
    billing, left = Billing(), len(CUSTOMERS) * ORDERS
    with OrderedConsumer(kafka, [f"{pipeline}.out"], group=f"{pipeline}-billing") as reader:
        parallel = reader.parallel(8, rejects=failed, retry=Retry(first_s=0.05))

        def handle(delivery: Delivery) -> None:
            nonlocal left
            customer, order = (delivery.key or b"").decode(), int(delivery.value or b"")
            run = int(delivery.header("epoch") or b"0")
            try:
                billing.bill(customer, run, order)
            except RefusedError as error:
                parallel.reject(delivery, "refused", str(error))
                print(f"{customer}: order {order} was rejected: {error}")
            with billing.lock:
                left -= run == producer.epoch  # a run that was killed may have left some
                if left == 0:
                    parallel.stop()

        parallel.run(handle)
        assert not reader.holes
    print(
        f"{sum(map(len, billing.billed.values()))} orders billed, {billing.failures} tries failed"
    )
    for customer, orders in sorted(billing.billed.items()):
        assert orders == sorted(orders), customer


if __name__ == "__main__":
    main(*sys.argv[1:])
