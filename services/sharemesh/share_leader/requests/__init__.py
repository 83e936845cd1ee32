"""ShareFetch, ShareAcknowledge and Explain: checks, sessions, acquisition, responses."""
