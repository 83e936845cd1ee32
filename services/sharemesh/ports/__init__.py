"""What the services need of the world, as protocols."""
