"""The rules of the specification, one subject a module."""
