"""Topic-partitions that are led here: take-over, drain, and the share partitions of each."""
