"""What the tests of the broker share: time limits, all that can be read, a draft with a payload."""

NOW = 0.0
SOON = 0.01
WAIT = 10.0


def payloads(subscription):
    """All that can be read now."""
    read = []
    while True:
        try:
            read.append(subscription.read(NOW))
        except TimeoutError:
            return read


def filled(broker, topic, payload):
    draft = broker.reserve(topic, NOW)
    draft.fill(payload)
    return draft
