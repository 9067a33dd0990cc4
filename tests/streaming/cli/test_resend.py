"""`sequencer resend` against a real broker: what is chosen, and what it says."""

import json

from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.service_helpers import called, called_json, write_config
from tests.streaming.cli.rejected import FAR, NOW, reject


def test_a_record_goes_back_as_it_was_to_where_it_was(place):
    own = [("label", b"7"), ("reject-reason", b"a user's own"), ("x", None)]
    place.write(
        reject(place.input, 4, partition=2, headers=own),
        reject(place.input, 5, "buffer-full", partition=1),
        Record(b"k", b"6", [("label", b"1")]),
    )
    counts = place.resend("--reason", "late")
    assert counts["late"] == {"rejects": 1, "chosen": 1, "sent": 1, "before": 0, "came_back": 0}
    assert counts["buffer-full"]["chosen"] == 0
    wait_for_records(place.address, place.input, 1)
    (found,) = read_all(place.address, place.input)
    assert (found.partition, found.key, found.value) == (2, b"k", b"4")
    assert (found.headers, found.timestamp) == (own, NOW + 4)
    (note,) = place.notes()
    assert note.key.decode() == f"{place.input}/2@{FAR + 4}"
    assert json.loads(note.value) == {
        "reason": "late",
        "topic": place.input,
        "partition": 2,
        "offset": found.offset,
    }


def test_each_goes_back_once_in_whatever_parts(place):
    place.write(*(reject(place.input, n, key=b"ab"[n % 2 : n % 2 + 1]) for n in range(6)))
    place.write(reject(place.input, 0, key=b"a"))  # an at-least-once service wrote it twice
    dry = place.resend("--reason", "late", "--dry-run")
    assert dry["late"]["sent"] == 6
    assert place.values() == []
    assert place.resend("--reason", "late", "--where", "key = a", "--max", "2")["late"]["sent"] == 2
    assert place.resend("--reason", "late", "--where", f"offset >= {FAR + 4}")["late"]["sent"] == 2
    last = place.resend("--reason", "late", "--reason", "reset")["late"]
    assert (last["sent"], last["before"]) == (2, 5)
    assert place.resend("--reason", "late")["late"]["sent"] == 0
    assert sorted(place.values()) == list(range(6))
    assert len(place.noted()) == 6


def test_what_came_back_is_not_sent_round_and_round(place):
    place.write(reject(place.input, 7))
    place.resend("--reason", "late")
    (now,) = read_all(place.address, place.input)
    place.write(reject(place.input, 8, partition=now.partition, offset=now.offset))
    counts = place.resend("--reason", "late")["late"]
    assert (counts["sent"], counts["came_back"], counts["before"]) == (0, 1, 1)
    counts = place.resend("--reason", "late", "--again")["late"]
    assert (counts["sent"], counts["came_back"]) == (1, 1)
    assert len(place.values()) == 2


def test_to_another_topic_by_key(place):
    other = f"{place.input}.other"
    create_topics(place.address, {other: 2})
    place.write(*(reject(place.input, n, partition=2) for n in range(3)))
    words = ("resend", place.config, "--reason", "late", "--dry-run")
    assert "comes back" in called(*words)[2]
    assert "comes back" not in called(*words, "--to", other)[2], "the service does not read it"
    assert place.resend("--reason", "late", "--to", other)["late"]["sent"] == 3
    assert place.values(other) == [0, 1, 2]
    assert place.values() == []
    assert place.resend("--reason", "late")["late"]["before"] == 3


def test_what_cannot_be_sent_is_refused(place, broker, tmp_path):
    place.write(reject("elsewhere", 1))
    code, _, err = called("resend", place.config, "--reason", "late")
    assert code == 2
    assert "elsewhere, which is not an input of p" in err
    code, _, err = called("resend", place.config, "--reason", "late", "--to", "not.there")
    assert code == 2
    assert "Topics are missing in Kafka: not.there" in err
    assert "Nothing was sent." in err
    assert "sequencer topics" not in err  # that would not create it
    code, _, err = called("resend", place.config, "--where", "label > 3")
    assert code == 2
    assert "is not a condition" in err
    folder = tmp_path / "second"
    folder.mkdir()
    after = {"input": place.topics["output"], "rejects": f"{place.rejects}.after"}
    both = {"p": place.topics, "after": after}
    create_topics(broker.bootstrap, dict.fromkeys(after.values(), 1))
    config = write_config(folder, broker.bootstrap, both)
    code, _, err = called("resend", config, "--reason", "late", "--pipeline", "after")
    assert code == 2
    assert "is written by pipeline p" in err
    produce(broker.bootstrap, after["rejects"], [reject(after["input"], 1)])
    (told,) = called_json("resend", config, "--pipeline", "after").values()
    assert (told["rejects"], told["chosen"], told["sent"]) == (1, 1, 0), "it only counts"
    output = place.topics["output"]
    code, _, err = called("resend", place.config, "--reason", "late", "--to", output)
    assert code == 2
    assert f"{output} is written by pipeline p" in err
    told = called_json("resend", place.config, "--to", output)
    assert (told["late"]["chosen"], told["late"]["sent"]) == (1, 0), "it would be refused"
    assert place.values(output) == []
    group = {"discipline": "group", "groups": {"G": ["A"]}, "output": "one.{subscriber}"}
    config = write_config(folder, broker.bootstrap, {"p": place.topics, "g": group})
    words = ("--reason", "late", "--pipeline", "p", "--to", "one.A")
    code, _, err = called("resend", config, *words)
    assert code == 2
    assert "one.A is written by pipeline g" in err
    code, _, err = called("resend", config, "--reason", "late")
    assert code == 2
    assert "Name one with --pipeline" in err


def test_the_table_tells_reasons_and_what_brings_them_back(place):
    place.write(reject(place.input, 1, "buffer-full"), reject(place.input, 2, "bad-label"))
    code, out, err = called("resend", place.config)
    assert code == 0
    assert "would send" in out
    assert place.values() == []
    code, out, err = called("resend", place.config, "--reason", "buffer-full", "--reason", "late")
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["bad-label", "1", "0", "0", "0", "0"],
        ["buffer-full", "1", "1", "1", "0", "0"],
    ]
    assert "the channel's buffer has to have room again" in err
    assert "no reject has the reason late" in err
    code, _, err = called("resend", place.config, "--reason", "buffer-ful")
    assert code == 2
    assert "--reason buffer-ful: no record of this pipeline is rejected for that." in err
    assert "Did you mean buffer-full?" in err
    place.write(reject(place.input, 3, "reset"))
    code, _, err = called("resend", place.config, "--reason", "reset")
    assert (code, "comes back" in err) == (0, False)  # its channel began again
