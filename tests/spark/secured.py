"""A service whose broker wants names, and grants what the service takes and no more."""

import time

from tests.kafka_helpers import create_topics
from tests.service_helpers import called, toml, write_config

ROLES = {"in": "Read", "commands": "Read", "out": "Write", "rejects": "Write", "events": "Write"}
GRANTED_SECONDS_MAX = 60


def grant_least(secure_broker, user, prefix, service):
    """What docs/operations.md lists, and that the judge may read what the service writes."""
    rights = [(operation, "Topic", prefix + role) for role, operation in ROLES.items()]
    rights += [("Read", "Topic", prefix + role) for role in ("events", "out", "rejects")]
    rights += [("Read", "Group", f"{service}.*"), ("Write", "TransactionalId", f"{service}.*")]
    secure_broker.grant(user, rights)


def write(secure_broker, prefix, folder, way, properties):
    """A service that knows the broker by these properties alone; topics named by the prefix."""
    topics = {
        "output" if role == "out" else "input" if role == "in" else role: prefix + role
        for role in ROLES
    }
    create_topics(secure_broker.bootstrap, {prefix + role: 2 for role in ROLES})
    path = write_config(folder, getattr(secure_broker, way), {"p": topics})
    text = path.read_text().replace("[kafka]\n", f"[kafka]\nproperties = {toml(properties)}\n")
    path.write_text(text)
    return path


def wait_for_rights(path):
    """Until the grants have reached the broker; `check` asks for all that a run takes."""
    deadline = time.monotonic() + GRANTED_SECONDS_MAX
    while (checked := called("check", path, "--rights"))[0] != 0:
        assert time.monotonic() < deadline, checked
        time.sleep(0.2)
