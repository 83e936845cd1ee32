"""The watched view of the cluster: members, topics, leaders, claims."""
