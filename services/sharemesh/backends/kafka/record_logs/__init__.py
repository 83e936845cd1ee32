"""Record logs over topics that exist: others write to them, and they are read as they are."""
