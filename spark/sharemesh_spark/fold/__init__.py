"""The fold of the state log, vectorised, and the reference it is measured against."""
