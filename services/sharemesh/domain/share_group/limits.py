"""Bounds on what one request may bring to a group."""

MAX_MEMBER_ID_CHARS = 36
"""Longest member id (spec GC-3)."""
MAX_NAME_CHARS = 249
"""Longest topic name that can exist; longer ones are refused."""
MAX_SUBSCRIBED_TOPICS = 1_000
MAX_LABEL_CHARS = 1_000
"""Longest rack id, client id and client host."""
MAX_GROUPS = 100_000
"""Most groups of one shard."""
MAX_MEMBERS_BYTES = 128 * 1024 * 1024
"""Most that all members of one shard may tell of themselves, about, in memory."""
FAILED_RETRY_INTERVAL_MS = 1_000
"""How long after a failed initialization the next try waits at least."""
