"""The producer: batches, partitions, retries."""
