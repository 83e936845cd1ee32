"""Logs on disk: epoch-fenced segments."""
