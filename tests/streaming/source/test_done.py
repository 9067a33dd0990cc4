"""What a source notes as done: what it is asked to go on from, as Spark has logged it."""

import json

from streaming.source.pacing import Pace
from streaming.source.positions import offsets_in
from streaming.source.reader import Inputs, KafkaReader
from tests.kafka_helpers import Record, produce
from tests.streaming.source.readings import as_logged, reading_of, send, values


def test_a_source_notes_what_it_goes_on_from(broker, topic):
    produce(broker.bootstrap, topic, [Record(b"k", b"v", partition=1)])
    inputs = Inputs(topics={topic: 0}, properties={"bootstrap.servers": broker.bootstrap})
    pace = Pace()
    pace.note_done({"transit": {"0": 7}})
    reader = KafkaReader(inputs, reading_of(topic), pace=pace)
    end = reader.latest(reader.first())
    assert pace.done == {"transit": {"0": 7}}, "a new query has done nothing yet"
    logged = json.loads(json.dumps(end))
    assert reader.latest(logged) is logged
    assert pace.done == {topic: offsets_in(end)[topic], "transit": {"0": 7}}
    assert pace.done[topic] == {"0": 0, "1": 1, "2": 0}
    reader.close()


def test_a_new_query_reads_of_its_own_topic_what_it_wrote(broker, topic):
    """Also in a first batch that is repeated; what was there before is another checkpoint's."""
    send(broker, topic, b"before", 5)
    inputs = Inputs(topics={topic: 0}, properties={"bootstrap.servers": broker.bootstrap})

    def reader_of_own():
        return KafkaReader(inputs, reading_of(topic)._replace(own=True))

    reader = reader_of_own()
    begin = reader.first()
    own = send(broker, topic, b"own", 3)
    end = as_logged(reader.latest(begin))
    assert values(reader, begin, end) == own
    own += send(broker, topic, b"later", 2)
    reader.close()
    reader = reader_of_own()
    assert values(reader, reader.first(), end) == own[:3]
    assert values(reader, end, reader.latest(end)) == own[3:]
    reader.close()
