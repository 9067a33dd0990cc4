"""Messages as confluent-kafka's consumer gives them, without a broker."""


class Message:
    """One of partition 0 of topic t, which has no error."""

    def __init__(self, offset, key=b"k", headers=()):
        self.place, self.name, self.own = offset, key, headers

    def error(self):
        return None

    def topic(self):
        return "t"

    def partition(self):
        return 0

    def offset(self):
        return self.place

    def key(self):
        return self.name

    def value(self):
        return b""

    def timestamp(self):
        return (0, 0)

    def headers(self):
        return list(self.own)
