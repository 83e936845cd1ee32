"""An issuer of tokens for tests: keys, the set of them, tokens with what a test wants wrong."""

import base64
import json
from functools import cache

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER = "https://kubernetes.default.svc"
AUDIENCE = "sharemesh"
JANE = "system:serviceaccount:shop:jane"
NOW_S = 1_800_000_000


@cache
def private_key(kid: str):
    """Return the key of an id; ids say the kind: rs…, rsa1024…, p256…, p384…."""
    if kid.startswith("p256"):
        return ec.generate_private_key(ec.SECP256R1())
    if kid.startswith("p384"):
        return ec.generate_private_key(ec.SECP384R1())
    return rsa.generate_private_key(65_537, 1_024 if kid.startswith("rsa1024") else 2_048)


def public_entry(kid: str, **more) -> dict:
    key = private_key(kid).public_key()
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPublicKey) else ECAlgorithm
    return {**algorithm.to_jwk(key, as_dict=True), "kid": kid, "use": "sig", **more}


def key_set(*kids: str) -> bytes:
    return json.dumps({"keys": [public_entry(kid) for kid in kids]}).encode()


def claims(**changed) -> dict:
    """Return good claims; a value of None leaves one out."""
    good = {
        "iss": ISSUER,
        "aud": [AUDIENCE],
        "sub": JANE,
        "exp": NOW_S + 600,
        "nbf": NOW_S,
    }
    return {name: value for name, value in (good | changed).items() if value is not None}


def token(kid: str = "rs1", *, algorithm: str = "", named: str | None = None, **changed) -> str:
    """Return a token signed with the key ``kid``, which it names unless ``named`` says another."""
    algorithm = algorithm or {"p256": "ES256", "p384": "ES384"}.get(kid[:4], "RS256")
    headers = {"kid": kid if named is None else named}
    return jwt.encode(claims(**changed), private_key(kid), algorithm, headers=headers)


def forged(header: dict, body: dict, signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(body).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
