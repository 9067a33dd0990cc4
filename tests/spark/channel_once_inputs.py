"""Many small channel pipelines and what they are given (`test_channel_once`)."""

import random
import time

from tests.kafka_helpers import Record

NET_SEED = 7
NOW = int(time.time() * 1000)  # Kafka deletes records with old timestamps


def labelled(key, label, value, *more):
    return Record(key, value, [("label", str(label).encode()), *more])


PIPELINES = {
    "text": {},
    "net": {},
    "bytes": {"header": "s."},
    "bad": {},
    "drop": {"duplicates": "drop"},
    "epochs": {},
    "cyclic": {"labels": {"kind": "cyclic", "start": 6, "modulus": 8}},
    "custom": {
        "labels": {
            "kind": "custom",
            "initial": "a",
            "next": "tests.spark.letters:next_letter",
        },
        "buffer": {"window": 5},
    },
    "bounds": {"buffer": {"held": 2, "window": 10}},
    "skipfull": {"buffer": {"held": 2, "full": "skip"}},
    "sql": {"channel": "substring(key, 1, 1)", "label": "cast(header('n') as int) + 1"},
    "named": {"channel": "header('c')"},
    "hashed": {"channel": "cast(hash(cast(cast(value as string) as int)) as string)"},
    "passing": {"unlabelled": "pass"},
    "settling": {"labels": {"kind": "linear", "start": "first-seen", "settle": "1h"}},
    "labelled": {"discipline": "label"},
    "ordered": {"input": "labelled.out"},
    "ruled": {
        "rules": [
            {"channel": "vip.*", "buffer": {"held": 1}, "duplicates": "drop"},
            {"channel": "*", "gap": {"policy": "skip", "after": "1 days"}, "buffer": {"window": 5}},
        ]
    },
    "second": {"input": "text.out"},
    "crowd": {},
}
CROWD = 8_500
"""More than 1,000 a shard: batches do not report them all."""
HASHED = [*range(200), 65_535, 65_536, 2**31 - 1, -1, -(2**31)]
NON_UTF8 = b"\xff\x00\xfe"
LABELLED = [
    labelled(b"k", 7, b"first", ("epoch", b"x")),
    Record(b"j", b"of another", []),
    Record(None, b"no channel", []),
    Record(b"k", None, [("fin", None)]),
]
RULED = [
    *(labelled(b"vip.a", n, b"v%d" % n) for n in (2, 3, 0, 0, 7)),
    *(labelled(b"a", n, b"a%d" % n) for n in (2, 3, 6, 0, 0)),
    *(labelled(NON_UTF8, n, b"x%d" % n) for n in (7, 0, 0)),
]


def inputs():
    rng = random.Random(NET_SEED)
    net = sorted(
        [labelled(b"src", n, letter.encode()) for n, letter in enumerate("abcdefghijk")],
        key=lambda _: rng.random(),
    )
    return {
        "text": [labelled(b"k", n, v) for n, v in [(3, b"w"), (1, b"y"), (2, b"x"), (0, b"z")]],
        "net": net,
        "bytes": [
            Record(
                NON_UTF8,
                None,
                [("a", None), ("label", b"0001"), ("a", NON_UTF8)],
                timestamp=NOW - 5,
            ),
            Record(NON_UTF8, b"", [("label", b"7"), ("", b"x"), ("label", b"0")], timestamp=NOW),
            Record(b"", NON_UTF8, [("label", b"0"), ("b", b"")], timestamp=NOW - 90_000),
        ],
        "bad": [
            Record(None, b"1", [("label", b"0")]),
            Record(b"k", b"2", []),
            Record(b"k", b"3", [("label", b"-1")]),
            Record(b"k", b"4", [("label", None)]),
            Record(b"k", b"5", [("label", b"")]),
            Record(b"k", b"6", [("label", b"0"), ("epoch", b"x")]),
            labelled(b"k", 0, b"good"),
            labelled(b"k", 0, b"again"),
            Record(b"k", b"7", [("label", b"9223372036854775808")]),
        ],
        "drop": [labelled(b"k", 0, b"first"), labelled(b"k", 0, b"again"), labelled(b"k", 1, b"x")],
        "epochs": [
            labelled(b"k", 0, b"a"),
            labelled(b"k", 2, b"c"),
            labelled(b"k", 1, b"B", ("epoch", b"1")),
            labelled(b"k", 0, b"A", ("epoch", b"1")),
            labelled(b"k", 1, b"stale"),
            labelled(b"k", 2, b"end", ("epoch", b"1"), ("fin", None)),
            labelled(b"k", 3, b"beyond", ("epoch", b"1")),
        ],
        "cyclic": [labelled(b"k", (6 + n) % 8, b"%d" % n) for n in (1, 0, 3, 2, 5, 4, 7, 6, 9, 8)],
        "custom": [labelled(b"k", c, c.encode()) for c in ("b", "a", "d", "c", "?", "k", "e")],
        "bounds": [labelled(b"k", n, b"%d" % n) for n in (2, 3, 4, 11, 0, 1)],
        "skipfull": [labelled(b"k", n, b"%d" % n) for n in (2, 4, 6, 0)],
        "sql": [Record(b"x-%d" % n, b"%d" % n, [("n", b"%d" % (n - 1))]) for n in (2, 1, 0)],
        "named": [
            labelled(b"k", 0, b"null", ("c", None)),
            labelled(b"k", 0, b"empty", ("c", b"")),
            labelled(b"k", 0, b"a", ("c", b"a")),
            labelled(b"k", 1, b"none"),
        ],
        "hashed": [labelled(None, 0, b"%d" % number) for number in HASHED],
        "settling": [labelled(b"k", n, b"%d" % n) for n in (8, 7)],
        "passing": [
            labelled(b"k", 2, b"2"),
            Record(b"k", b"none", [("fin", b""), ("epoch", b"x")]),
            labelled(b"k", 1, b"1"),
            Record(b"k", b"empty", [("label", b"")]),
            labelled(b"k", 0, b"0"),
            Record(b"k", None, []),
            Record(None, b"no channel", []),
        ],
        "labelled": LABELLED,
        "ordered": [],
        "ruled": RULED,
        "second": [],
        "crowd": [labelled(b"c%d" % n, 1, b"") for n in range(CROWD)],
    }
