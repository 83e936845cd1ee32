"""The in-flight cache: batches, statuses, locks and the indexes over them."""
