"""Consume and HoldSession: share sessions that are bound to a stream."""
