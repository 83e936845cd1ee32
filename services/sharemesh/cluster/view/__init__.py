"""The watched view of the cluster."""
