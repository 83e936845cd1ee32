"""The state log as columns, read beside its writers."""
