"""What the clients are told of some `[kafka] properties`."""

from streaming.config import parse_config


def config(properties, address="a:1,b:2", environ=None):
    tables = {
        "kafka": {"bootstrap_servers": address, "properties": properties},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    return parse_config(tables, environ or {}, "test")


def told(client, properties):
    """What a client is told, but for the address."""
    out = client(config(properties))
    address = out.pop("bootstrap_servers", None) or out.pop("bootstrap.servers").split(",")
    assert address == ["a:1", "b:2"]
    return out
