"""Kafka's requests as ours and our answers as Kafka's: functions without state."""
