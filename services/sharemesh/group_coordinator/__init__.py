"""The group coordinator: heartbeats, assignment, share-group administration."""
