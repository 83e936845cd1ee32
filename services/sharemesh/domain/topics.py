"""Topic names, ids and configs."""
