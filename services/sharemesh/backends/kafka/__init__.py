"""Logs that are topics of a Kafka-compatible cluster."""
