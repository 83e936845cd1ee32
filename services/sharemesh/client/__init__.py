"""What applications import: consumer, producer, admin client."""
