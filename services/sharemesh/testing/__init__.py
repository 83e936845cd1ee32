"""A mesh in memory for the tests of applications: one event loop, no sockets, no files."""
