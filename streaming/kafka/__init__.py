"""Kafka as the service sees it: client settings, credentials, topics, jars, an embedded broker."""
