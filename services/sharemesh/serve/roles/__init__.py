"""One file a role: how its service is built from the ports."""
