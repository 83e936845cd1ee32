"""Child processes and their end: the supervisor of ``up``, the guard of a container."""
