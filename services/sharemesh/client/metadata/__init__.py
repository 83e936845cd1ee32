"""Who leads and coordinates what: cached metadata and its refresh."""
