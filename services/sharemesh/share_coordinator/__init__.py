"""The share coordinator: durable share-partition state."""
