"""Domain words to bytes and back: state records, record batches, log segments."""
