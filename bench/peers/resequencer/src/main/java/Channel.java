import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * What is known of a channel, in one array: the next label (8 bytes), then what is held, one behind
 * the other: label (8), timestamp (8), length (4), value. A state is never changed in place: a
 * snapshot, or a cache, may be looking at it.
 */
public final class Channel {
    private static final int HEAD = 8;
    private static final int ENTRY = 20;

    /** Takes what is in order. */
    public interface Output {
        void deliver(long label, long timestamp, byte[] value);
    }

    private Channel() {}

    /** The state after a message; what is in order by now goes to the output. Repeats are dropped. */
    public static byte[] step(
            byte[] before, long label, long timestamp, byte[] value, Output output) {
        byte[] state = before == null ? new byte[HEAD] : before;
        ByteBuffer fields = ByteBuffer.wrap(state);
        long next = fields.getLong(0);
        if (label < next || find(fields, state.length, label) >= 0) {
            return state;
        }
        if (label > next) {
            byte[] longer = Arrays.copyOf(state, state.length + ENTRY + value.length);
            ByteBuffer.wrap(longer)
                    .position(state.length)
                    .putLong(label)
                    .putLong(timestamp)
                    .putInt(value.length)
                    .put(value);
            return longer;
        }
        output.deliver(label, timestamp, value);
        return release(state.clone(), next + 1, output);
    }

    /** Delivers from the next label on, as far as there is no gap. */
    private static byte[] release(byte[] state, long next, Output output) {
        ByteBuffer fields = ByteBuffer.wrap(state);
        int end = state.length;
        for (int at = find(fields, end, next); at >= 0; at = find(fields, end, next)) {
            int after = at + ENTRY + fields.getInt(at + 16);
            byte[] value = Arrays.copyOfRange(state, at + ENTRY, after);
            output.deliver(next, fields.getLong(at + 8), value);
            System.arraycopy(state, after, state, at, end - after);
            end -= after - at;
            next++;
        }
        fields.putLong(0, next);
        return end == state.length ? state : Arrays.copyOf(state, end);
    }

    /** Where a label is held, or -1. */
    private static int find(ByteBuffer fields, int end, long label) {
        for (int at = HEAD; at < end; at += ENTRY + fields.getInt(at + 16)) {
            if (fields.getLong(at) == label) {
                return at;
            }
        }
        return -1;
    }
}
