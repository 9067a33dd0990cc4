"""Where checkpoints lie: `files` (folders, HDFS, object stores) and `syncing` (a folder's disk)."""
