"""What judges keep in files is what they would keep in memory; nothing of it stays on the disk."""

import contextlib
import gc
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from sequencer.judging.cycles import DeliveryGraph
from streaming.errors import SequencerError
from streaming.verify import columns, group, logs, merge, multicast, multicast_deliveries
from streaming.verify.accounts import Settings
from streaming.verify.columns import Column, Index, Strand
from streaming.verify.logs import Log, Names, Values
from streaming.verify.merge import Merge, Pairs
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts
from tests.streaming.verify.mutations import again, changed, cut_short, other_sequence
from tests.streaming.verify.plants import Lists, append, drop, swap
from tests.streaming.verify.worlds import material_for, settings_for


@pytest.fixture
def tiny(monkeypatch):
    """Almost everything lies in files, in blocks and runs of a few numbers."""

    def shrink():
        for module, name, limit in (
            (columns, "MEMORY_BYTES", 300),
            (columns, "BLOCK", 2),
            (columns, "CHUNK", 6),
            (columns, "PACE", 3),
            (merge, "AHEAD", 1),
            (logs, "MEMORY_BYTES", 50),
            (logs, "KNOWN_MAX", 1),
            (multicast_deliveries, "RUN", 3),
        ):
            monkeypatch.setattr(module, name, limit)

    return shrink


def changed_somehow(rng, m):
    """One of the ways in which a broken service, or one that still runs, may have left topics."""
    at = rng.randrange(len(m.outputs))
    record = m.outputs[at]
    own = m.of_key(record.key)
    kind = rng.randrange(8)
    if kind == 0:
        cut_short(rng, m)
    elif kind == 1:
        swap(m.outputs, at, rng.choice(own))
    elif kind == 2:
        drop(m.outputs, at)
    elif kind == 3:
        append(m.outputs, record, rng.choice(m.outputs).key)
    elif kind == 4 and record.has_header("x"):
        m.outputs[at] = changed(rng, record, "x", b"p9")
    elif kind == 5:
        again(rng, m, at, record, [])
    elif kind == 6:
        other_sequence(rng, m, at, record, [])


def judged(seed, discipline):
    """A verdict on a random history: good, on its way, or with faults; with causes now and then."""
    rng = random.Random(seed)
    if discipline == "group":
        world = random_groups(seed, steps=60, commands=0.1)
        more = {"groups": world.configured, "across_groups": seed % 3 == 0}
        judge, make = group.judge, group.GroupSettings
    else:
        world = random_multicasts(seed, steps=60, order=rng.choice(["batch", "clock", "counter"]))
        more, judge, make = {}, multicast.judge, Settings
    m = Lists.of(material_for(world))
    for _ in range(rng.randrange(3) if m.outputs else 0):
        changed_somehow(rng, m)
    places = [record.place for record in m.inputs]
    causes = [rng.sample(places, 2) for _ in range(rng.choice([0, 0, 3]))]
    due = {} if rng.random() < 0.3 else None
    verdict = judge(settings_for(make, world, due=due, **more), m.material(), causes)
    return verdict.looked_at, verdict.counts, [(f.name, f.witness) for f in verdict.faults]


def same_in_files(tiny, discipline, seeds):
    in_memory = [judged(seed, discipline) for seed in seeds]
    tiny()
    assert [judged(seed, discipline) for seed in seeds] == in_memory
    return sum(1 for _, counts, _ in in_memory if counts)


@pytest.mark.parametrize("discipline", ["group", "multicast"])
def test_files_change_no_verdict(tiny, discipline):
    assert 10 < same_in_files(tiny, discipline, range(40)) < 40


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("discipline", ["group", "multicast"])
def test_files_change_no_verdict_on_many_histories(tiny, discipline):
    assert same_in_files(tiny, discipline, range(1000, 3000)) > 500


@pytest.mark.parametrize("seed", range(200))
def test_the_merge_finds_the_knots_of_the_whole(tiny, seed):
    """Rows of one order, some turned; causes mostly along it."""
    rng = random.Random(seed)
    tiny()
    count = rng.randrange(2, 40)
    rows = {}
    for receiver in range(rng.randrange(1, 6)):
        row = sorted(rng.sample(range(count), rng.randrange(count)))
        for _ in range(rng.choice([0, 0, 1, 2]) if len(row) > 1 else 0):
            one, two = rng.sample(range(len(row)), 2)
            row[one], row[two] = row[two], row[one]
        rows[receiver] = row
    there = sorted({message for row in rows.values() for message in row})
    pairs = [sorted(rng.sample(there, 2)) for _ in range(rng.choice([0, 3])) if len(there) > 1]
    pairs = [*{(a, b) if rng.random() < 0.9 else (b, a) for a, b in pairs}]
    strands, store = {}, Column()
    for receiver, row in rows.items():
        for _ in range(rng.choice([0, 0, 1, 2]) if row and seed % 2 else 0):
            row.insert(rng.randrange(len(row)), rng.choice(row))  # again, perhaps not at once
        strands[receiver] = Strand(store)
        for message in row:
            strands[receiver].append(message)
            for _ in range(rng.choice([0, 0, 1])):
                strands[receiver].append(message)  # for two nodes of one owner

    def rows_of(graph, knot):
        return frozenset(
            (graph.receivers[receiver], *(graph.messages[at] for at in row))
            for receiver, row in knot.rows
        )

    caused = Pairs(count)
    for pair in (*pairs, *pairs):
        caused.add(*pair)
    found = Counter()
    for graph, some in Merge(strands, count, caused).knots():
        found.update(rows_of(graph, knot) for knot in some)
    graph = DeliveryGraph(rows, pairs)
    assert found == Counter(rows_of(graph, knot) for knot in graph.knots())


def test_columns_are_lists(tiny):
    tiny()
    rng = random.Random(1)
    values = [rng.choice([0, -1, 2**62, rng.randrange(100)]) for _ in range(1000)]
    column, filled = Column(), Column(1000, -1)
    strands, store = [Strand(column) for _ in range(3)], [[], [], []]
    for value in values:
        at = rng.randrange(3)
        strands[at].append(value)
        store[at].append(value)
    for strand, numbers in zip(strands, store, strict=True):
        assert [*strand] == numbers
        assert [strand[at] for at in range(len(strand))] == numbers
        assert [*strand.part(3, 50)] == numbers[3:50]
        assert strand.index(numbers[-1]) == numbers.index(numbers[-1])
        with pytest.raises(ValueError, match="7777"):
            strand.index(7777)
    filled[7] = 8
    assert [*filled.copy()] == [*filled] == [-1] * 7 + [8] + [-1] * 992
    with pytest.raises(IndexError):
        filled[1000]


def test_values_are_found_again(tiny):
    tiny()
    rng = random.Random(2)
    values, log, names, index = Values(), Log(), Names(Column(), Values()), Index()
    expected, places, numbers = [], [], {}
    for n in range(500):
        value = rng.choice([None, b"", b"x" * rng.randrange(200), (True, b"%d" % n), (False, None)])
        expected.append(value)
        values.append(value)
        places.append(log.append(value))
        index.put(n * 2**20, n)
        index.put(n * 2**20, n + 1)
        name = (rng.randrange(20), b"%d" % rng.randrange(10))
        if name not in numbers:
            assert names.find(name) == -1
            numbers[name] = names.append(name)
    assert [values[n] for n in range(500)] == expected == [log[place] for place in places]
    assert [*log] == [*zip(places, expected, strict=True)]
    assert [*names] == [*numbers]
    assert [index.get(n * 2**20) for n in range(501)] == [*range(1, 501), -1]


def test_it_is_said_how_far_judging_is(tiny):
    tiny()
    shown = []
    world = random_multicasts(3, steps=60)
    settings = settings_for(Settings, world, progress=lambda *what: shown.append(what))
    assert multicast.judge(settings, material_for(world)).good
    assert {what for what, _, _ in shown} == {
        *("matching messages", "judging destinations", "merging messages", "judging inputs")
    }
    assert all(0 < count <= total for _, count, total in shown)


def test_files_have_no_names_and_are_closed(tiny, tmp_path, monkeypatch):
    """So nothing stays behind, however the process ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opened, make = [], columns.temporary_file

    def named():
        file = make()
        opened.extend(handles_in(tmp_path))
        return file

    monkeypatch.setattr(columns, "temporary_file", named)
    tiny()
    judged(3, "group")
    assert opened
    assert not [*tmp_path.iterdir()]
    gc.collect()
    assert not handles_in(tmp_path)


def handles_in(folder):
    """The files of a folder that this process has open, also those without a name."""
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            found.append(handle.readlink())
    return [each for each in found if folder in each.parents]


def test_a_disk_that_is_full_is_said(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(columns, "MEMORY_BYTES", 300)
    monkeypatch.setattr(columns.os, "posix_fallocate", full)
    with pytest.raises(SequencerError, match=r"No space left on device.*TMPDIR"):
        judged(1, "group")
