import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.US_ASCII;

import java.util.List;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/**
 * Channels in Flink: two task slots, a sink with transactions, until the input's end. Arguments:
 * bootstrap, topic, output, how many records (not needed here), folder, checkpoint interval (ms),
 * state backend ("hashmap", which is the heap, or "rocksdb"), a channel's state ("array": one value
 * for all that is held; "entries": one for each held message).
 */
public final class FlinkPeer {
    private static final TypeInformation<byte[]> BYTES =
            PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
    private static final TypeInformation<Tuple4<String, Long, Long, byte[]>> MESSAGE =
            Types.TUPLE(Types.STRING, Types.LONG, Types.LONG, BYTES); // key, label, timestamp, value

    public static void main(String[] words) throws Exception {
        var flink = StreamExecutionEnvironment.createLocalEnvironment(2, settings(words));
        Properties consumer = new Properties();
        consumer.putAll(Clients.CONSUMER);
        var source =
                KafkaSource.<Tuple4<String, Long, Long, byte[]>>builder()
                        .setBootstrapServers(words[0])
                        .setTopics(words[1])
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setBounded(OffsetsInitializer.latest())
                        .setDeserializer(new Reader())
                        .setProperties(consumer)
                        .build();
        Properties producer = new Properties();
        producer.put("transaction.timeout.ms", "600000");
        producer.putAll(Clients.PRODUCER);
        var sink =
                KafkaSink.<Tuple4<String, Long, Long, byte[]>>builder()
                        .setBootstrapServers(words[0])
                        .setKafkaProducerConfig(producer)
                        .setRecordSerializer(new Writer(words[2]))
                        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                        .setTransactionalIdPrefix(words[2])
                        .build();
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "in", MESSAGE)
                .keyBy(message -> message.f0, Types.STRING)
                .process(words[7].equals("entries") ? new Entries() : new Resequencer(), MESSAGE)
                .sinkTo(sink);
        flink.execute();
    }

    private static Configuration settings(String[] words) {
        Configuration all = new Configuration();
        all.setString("taskmanager.numberOfTaskSlots", "2");
        all.setString("pipeline.object-reuse", "true");
        all.setString("execution.checkpointing.interval", words[5] + " ms");
        all.setString("execution.checkpointing.dir", "file://" + words[4] + "/checkpoints");
        all.setString("execution.checkpointing.incremental", "true");
        all.setString("restart-strategy.type", "none");
        all.setString("state.backend.type", words[6]);
        all.setString("state.backend.rocksdb.localdir", words[4] + "/rocksdb");
        all.setString("state.backend.rocksdb.use-bloom-filter", "true");
        all.setString("taskmanager.memory.managed.size", words[6].equals("rocksdb") ? "512m" : "0");
        all.setString("taskmanager.memory.network.min", "64m");
        all.setString("taskmanager.memory.network.max", "64m");
        return all;
    }

    private static final class Resequencer
            extends KeyedProcessFunction<
                    String, Tuple4<String, Long, Long, byte[]>, Tuple4<String, Long, Long, byte[]>> {
        private transient ValueState<byte[]> channel;

        @Override
        public void open(OpenContext context) {
            channel = getRuntimeContext().getState(new ValueStateDescriptor<>("channel", BYTES));
        }

        @Override
        public void processElement(
                Tuple4<String, Long, Long, byte[]> message,
                Context context,
                Collector<Tuple4<String, Long, Long, byte[]>> out)
                throws Exception {
            byte[] before = channel.value();
            byte[] after =
                    Channel.step(
                            before,
                            message.f1,
                            message.f2,
                            message.f3,
                            (label, timestamp, value) ->
                                    out.collect(Tuple4.of(message.f0, label, timestamp, value)));
            if (after != before) {
                channel.update(after);
            }
        }
    }

    /** The next label, and an entry for each held message. */
    private static final class Entries
            extends KeyedProcessFunction<
                    String, Tuple4<String, Long, Long, byte[]>, Tuple4<String, Long, Long, byte[]>> {
        private transient ValueState<Long> next;
        private transient MapState<Long, Tuple2<Long, byte[]>> held; // by label: timestamp, value

        @Override
        public void open(OpenContext context) {
            next = getRuntimeContext().getState(new ValueStateDescriptor<>("next", Types.LONG));
            held =
                    getRuntimeContext()
                            .getMapState(
                                    new MapStateDescriptor<>(
                                            "held", Types.LONG, Types.TUPLE(Types.LONG, BYTES)));
        }

        @Override
        public void processElement(
                Tuple4<String, Long, Long, byte[]> message,
                Context context,
                Collector<Tuple4<String, Long, Long, byte[]>> out)
                throws Exception {
            Long known = next.value();
            long due = known == null ? 0 : known;
            if (message.f1 > due) {
                held.put(message.f1, Tuple2.of(message.f2, message.f3));
            } else if (message.f1 == due) {
                String channel = message.f0; // the message may be changed by who takes it
                out.collect(message);
                due++;
                for (var one = held.get(due); one != null; one = held.get(due)) {
                    held.remove(due);
                    out.collect(Tuple4.of(channel, due++, one.f0, one.f1));
                }
                next.update(due);
            }
        }
    }

    private static final class Reader
            implements KafkaRecordDeserializationSchema<Tuple4<String, Long, Long, byte[]>> {
        @Override
        public void deserialize(
                ConsumerRecord<byte[], byte[]> read,
                Collector<Tuple4<String, Long, Long, byte[]>> out) {
            String label = new String(read.headers().lastHeader("label").value(), US_ASCII);
            String key = new String(read.key(), ISO_8859_1);
            out.collect(Tuple4.of(key, Long.parseLong(label), read.timestamp(), read.value()));
        }

        @Override
        public TypeInformation<Tuple4<String, Long, Long, byte[]>> getProducedType() {
            return MESSAGE;
        }
    }

    private static final class Writer
            implements KafkaRecordSerializationSchema<Tuple4<String, Long, Long, byte[]>> {
        private final String topic;

        Writer(String topic) {
            this.topic = topic;
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(
                Tuple4<String, Long, Long, byte[]> message, KafkaSinkContext context, Long time) {
            byte[] label = message.f1.toString().getBytes(US_ASCII);
            List<Header> headers =
                    List.of( // sequence: from 0, without a hole, so the same
                            new RecordHeader("label", label), new RecordHeader("sequence", label));
            byte[] key = message.f0.getBytes(ISO_8859_1);
            return new ProducerRecord<>(topic, null, message.f2, key, message.f3, headers);
        }
    }
}
