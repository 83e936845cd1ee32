"""The share consumer: membership, share sessions, deliveries, acknowledgements."""
