"""Share sessions (spec section 12)."""
