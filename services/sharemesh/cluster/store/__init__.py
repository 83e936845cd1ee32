"""Keys and values in the coordination store, and the changes of topics and settings."""
