import java.util.Map;

/** What Kafka's clients are told, in both systems alike. */
public final class Clients {
    public static final Map<String, String> CONSUMER =
            Map.of(
                    "max.poll.records", "10000",
                    "max.partition.fetch.bytes", String.valueOf(4 << 20),
                    "fetch.min.bytes", String.valueOf(64 << 10),
                    "fetch.max.wait.ms", "50",
                    "check.crcs", "false");
    public static final Map<String, String> PRODUCER =
            Map.of(
                    "linger.ms", "20",
                    "compression.type", "lz4",
                    "batch.size", String.valueOf(256 << 10),
                    "buffer.memory", String.valueOf(64 << 20),
                    "max.request.size", String.valueOf(4 << 20));

    private Clients() {}
}
