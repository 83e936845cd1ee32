"""The Spark application over the share state log."""
