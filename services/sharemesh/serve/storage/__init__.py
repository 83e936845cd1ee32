"""Where a process keeps records, states and groups: one filling an engine."""
