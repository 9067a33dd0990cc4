"""What producers of all kinds wrote, and what three readers find of it."""

from itertools import zip_longest


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
    for read in (readers.by_librdkafka, readers.by_python):
        others = read(topic, ranges)
        assert found == others, difference(found, others, read.__name__)
    return found


def difference(found, others, name):
    """The first records that are not alike, in a few words."""
    pairs = zip_longest(found, others)
    at, one, other = next((n, *pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
    return f"record {at} is {short(one)}, {name} says {short(other)}; {len(found)}, {len(others)}"


def short(record):
    return repr(record)[:300]
