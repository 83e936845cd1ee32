"""Records of batches at once, for tests that look at what they got."""

from sharemesh.codec import decoded_records


def decode_records(records, acquired, **options):
    """Return the acquired records; raise what is told of those that cannot be read."""
    bad = []
    found = list(decoded_records.decode_records(records, acquired, bad.append, **options))
    if bad:
        raise bad[0].refusal
    return [record for record in found if record is not None]
