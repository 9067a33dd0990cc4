"""The service: Spark jobs, Kafka, configuration, command line, metrics."""
