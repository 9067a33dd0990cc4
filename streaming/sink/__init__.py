"""Writing a batch to Kafka, once."""
