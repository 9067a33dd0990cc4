"""What producers of all kinds wrote, and what three readers find of it."""


def write(made, topic, turns):
    """Write; what is then there for readers of what is committed, by partition."""
    committed, waiting = [], {number: [] for number in range(len(made))}
    for number, records, fate in [*turns, *((each, [], "committed") for each in waiting)]:
        if records:
            made[number].send(topic, records)
            waiting[number] += records
        if not made[number].transactional or fate == "committed":
            committed += waiting.pop(number)
            waiting[number] = []
        if fate != "goes on":
            made[number].end(committed=fate == "committed")
            waiting[number] = []
    return committed


def contents(records):
    return sorted((each.partition, repr((each.key, each.value, each.headers))) for each in records)


def all_alike(readers, topic, ranges):
    """What the three find, which is the same."""
    found = readers.by_ours(topic, ranges)
    assert found == readers.by_librdkafka(topic, ranges)
    assert found == readers.by_python(topic, ranges)
    return found
