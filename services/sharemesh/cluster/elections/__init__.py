"""Elections of coordinator shards."""
