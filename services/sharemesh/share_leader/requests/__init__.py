"""The unary requests: fetch, acknowledge, explain, produce, offsets; checks and sessions."""
