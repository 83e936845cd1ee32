"""What keeps the logs of a simulated mesh: a shared volume, or the brokers of a Kafka cluster."""
