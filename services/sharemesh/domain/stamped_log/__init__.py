"""A log whose batches say where their writer expects them: what counts, what a writer does next."""
