"""Quotas kept: who waits for a rate, who is refused, and what is said about it (spec QUO)."""
