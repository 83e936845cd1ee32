"""A Kafka-compatible cluster over its own protocol: fills the port Brokers (spec KBR)."""
