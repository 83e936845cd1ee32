"""Settings of a process: fields, flags, environment, files."""
