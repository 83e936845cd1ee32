"""Claims of share leaders on topic-partitions."""
