package sequencer;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.AbstractFileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/**
 * Spark's files of a checkpoint on S3: each is one upload, whole or not at all, and one that may not
 * replace another never does.
 *
 * Spark's own class for S3 (AbortableStreamBasedCheckpointFileManager of 4.2) passes over an upload
 * that failed: a batch then goes on without its log entry or its state. A rename on S3 is a copy, so
 * its classes that rename need twenty requests for a file, and may replace an entry.
 */
public final class S3Files extends AbstractFileContextBasedCheckpointFileManager {
    private static final String ABSENT = "fs.option.create.conditional.overwrite";

    private final FileSystem files;

    public S3Files(Path path, Configuration configuration) throws IOException {
        super(path, configuration);
        files = path.getFileSystem(configuration);
    }

    @Override
    public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
        try {
            var created = files.createFile(path).overwrite(overwriteIfPossible);
            if (overwriteIfPossible) {
                created.opt("fs.s3a.create.performance", true);
            } else if (files.hasPathCapability(path, ABSENT)) {
                created.must(ABSENT, true);
            } // else S3's client looks first: a store without conditional writes
            return new Upload(created.build());
        } catch (IOException error) {
            throw S3Files.<RuntimeException>undeclared(error);
        }
    }

    /** Spark's methods declare no checked exceptions, and expect them. */
    @SuppressWarnings("unchecked")
    private static <T extends Throwable> RuntimeException undeclared(Throwable error) throws T {
        throw (T) error;
    }

    private static final class Upload extends CancellableFSDataOutputStream {
        private final FSDataOutputStream stream;

        Upload(FSDataOutputStream stream) {
            super(stream);
            this.stream = stream;
        }

        @Override
        public void cancel() {
            stream.abort();
        }
    }
}
