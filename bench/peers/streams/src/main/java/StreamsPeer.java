import static java.nio.charset.StandardCharsets.US_ASCII;

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Channels in Kafka Streams: a RocksDB store with a changelog, exactly-once-v2, two threads.
 * Arguments: bootstrap, topic, output, how many records to deliver, folder, commit interval (ms).
 */
public final class StreamsPeer {
    private static final String STORE = "channels";
    private static final AtomicLong left = new AtomicLong();
    private static final CountDownLatch done = new CountDownLatch(1);
    private static volatile boolean failed;

    public static void main(String[] words) throws InterruptedException {
        left.set(Long.parseLong(words[3]));
        Topology topology = new Topology();
        var bytes = new ByteArrayDeserializer();
        topology.addSource("in", bytes, bytes, words[1])
                .addProcessor("order", Resequencer::new, "in")
                .addStateStore(
                        Stores.keyValueStoreBuilder(
                                        Stores.persistentKeyValueStore(STORE),
                                        Serdes.Bytes(),
                                        Serdes.ByteArray())
                                .withCachingEnabled(),
                        "order")
                .addSink("out", words[2], new ByteArraySerializer(), new ByteArraySerializer(), "order");
        KafkaStreams streams = new KafkaStreams(topology, settings(words));
        streams.setUncaughtExceptionHandler(
                error -> {
                    error.printStackTrace();
                    failed = true;
                    done.countDown();
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
        streams.start();
        done.await();
        streams.close(Duration.ofSeconds(60)); // commits
        System.exit(failed ? 1 : 0);
    }

    private static Properties settings(String[] words) {
        Properties all = new Properties();
        all.put("application.id", words[2]);
        all.put("bootstrap.servers", words[0]);
        all.put("state.dir", words[4]);
        all.put("processing.guarantee", StreamsConfig.EXACTLY_ONCE_V2);
        all.put("num.stream.threads", "2");
        all.put("commit.interval.ms", words[5]);
        all.put("statestore.cache.max.bytes", String.valueOf(128 << 20));
        all.put("buffered.records.per.partition", "10000");
        all.put("consumer.auto.offset.reset", "earliest");
        Clients.CONSUMER.forEach((name, value) -> all.put("consumer." + name, value));
        Clients.PRODUCER.forEach((name, value) -> all.put("producer." + name, value));
        return all;
    }

    private static final class Resequencer
            extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
        private KeyValueStore<Bytes, byte[]> channels;

        @Override
        public void init(ProcessorContext<byte[], byte[]> context) {
            super.init(context);
            channels = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<byte[], byte[]> message) {
            Bytes key = Bytes.wrap(message.key());
            byte[] text = message.headers().lastHeader("label").value();
            long label = Long.parseLong(new String(text, US_ASCII));
            byte[] before = channels.get(key);
            byte[] after =
                    Channel.step(
                            before,
                            label,
                            message.timestamp(),
                            message.value(),
                            (place, timestamp, value) -> deliver(message, place, timestamp, value));
            if (after != before) {
                channels.put(key, after);
            }
        }

        private void deliver(Record<byte[], byte[]> cause, long label, long timestamp, byte[] value) {
            Headers headers = new org.apache.kafka.common.header.internals.RecordHeaders();
            byte[] text = Long.toString(label).getBytes(US_ASCII);
            headers.add("label", text).add("sequence", text); // from 0, without a hole: the same
            context().forward(new Record<>(cause.key(), value, timestamp, headers));
            if (left.decrementAndGet() == 0) {
                done.countDown();
            }
        }
    }
}
