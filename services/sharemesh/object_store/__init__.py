"""Files in an object store, by URI: what generations and histories lie in without a directory."""
