"""Reports for terminals and browsers."""
