"""What a `label` pipeline wrote reads like a channel's."""

from streaming.clients.deliveries import Delivery, read, require_known
from streaming.clients.lines import LINES

RECORD = {"topic": "t.out", "partition": 0, "offset": 3, "timestamp": 5, "key": b"a", "value": b"x"}
HEADERS = (
    ("own", b"1"),
    ("p-label", b"4"),
    ("p-epoch", b"70"),
    ("p-sequence", b"4"),
    ("p-incarnation", b"70"),
)


def test_an_output_of_discipline_label_is_read_as_a_channels():
    require_known("label", ["t.out"])
    found = read("label", RECORD, HEADERS, "p-")
    assert found == Delivery(**RECORD, headers=HEADERS[:3], sequence=4, incarnation=70)
    assert list(LINES["label"]().follow(found)) == []
