"""Bearer tokens of one issuer: its keys, their signatures, whom they name (spec IDN)."""
