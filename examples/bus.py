"""Multicast: senders, a reaction that names its cause, a node's handle and the notice of its end.

It wants a node, and waits at last for its end; from another terminal:
  sequencer node create examples/clients.toml printer bob    # before
  sequencer node destroy examples/clients.toml printer       # when it asks for it
"""

import sys

from streaming import MulticastSender, OrderedConsumer
from streaming.clients import MulticastDelivery, Notice

TRACE = ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")


def main(address: str = "localhost:9092", pipeline: str = "bus") -> None:
    """Bob passes his printer's handle to ann; she prints, and hears of the printer's end."""
    kafka = {"bootstrap.servers": address}
    with MulticastSender(kafka, f"{pipeline}.in", "bob") as bob:
        bob.send(["ann", "cid"], "here is my printer", [TRACE], handles=["printer"])
    with OrderedConsumer(
        kafka, [f"{pipeline}.out"], discipline="multicast", group=f"{pipeline}-ann", keys=["ann"]
    ) as consumer:
        ann = MulticastSender(kafka, f"{pipeline}.in", "ann", reads=consumer)
        _show(consumer.poll(120))
        ann.send(["@printer", "ann"], "print this", [TRACE])  # names bob's message as its cause
        ann.flush()
        _show(consumer.poll(120))  # her own copy: so bob's printer got it, too
        print(f"ann holds {', '.join(consumer.handles('ann'))}; now destroy it", flush=True)
        notice = consumer.poll(120)
        assert isinstance(notice, Notice)
        print(f"{notice.node} was destroyed at {notice.stamp} by {notice.sender.decode()}")
        assert not consumer.handles("ann")
        consumer.commit()


def _show(got: MulticastDelivery | Notice | None) -> None:
    assert isinstance(got, MulticastDelivery), "is the service running, and is there a printer?"
    print(f"ann got {(got.value or b'').decode()!r} at {got.stamp} from {got.sender.decode()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
