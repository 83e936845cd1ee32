"""The history table and the questions that it answers."""
