"""Lengths and texts as flexible versions of Kafka's messages write them."""


def compact_length(count: int) -> bytes:
    """Return a length: one more than it is, in sevens of bits."""
    left = count + 1
    packed = bytearray()
    while left > 0x7F:
        packed.append(left & 0x7F | 0x80)
        left >>= 7
    packed.append(left)
    return bytes(packed)


def compact_text(text: str) -> bytes:
    """Return a text behind its length."""
    encoded = text.encode()
    return compact_length(len(encoded)) + encoded


def nullable_text(text: str) -> bytes:
    """Return a text that may be null; an empty one is."""
    return compact_text(text) if text else b"\0"
