"""Event-sourced coordinator shards: load, group commit, fencing."""
