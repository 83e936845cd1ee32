"""The rules of KIP-932: no clock, I/O, randomness or asyncio."""
