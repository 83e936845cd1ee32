"""The share-partition leader: records, share sessions, fetch, acknowledge."""
