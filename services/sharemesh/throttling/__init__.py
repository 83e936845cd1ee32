"""Quotas and turns kept: who waits, who is refused, what is said about it (spec QUO, BND-28)."""
