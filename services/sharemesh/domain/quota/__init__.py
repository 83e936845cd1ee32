"""Quotas: whom they bind, what they bound, who has used how much of them (spec QUO)."""
