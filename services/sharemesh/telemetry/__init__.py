"""Names of spans and metrics, and what records them."""
