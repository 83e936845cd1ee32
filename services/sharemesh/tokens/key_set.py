"""The keys of an issuer as it publishes them (JWKS, RFC 7517), and what they have signed."""

import json
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.api_jws import PyJWS

KEYS_MAX = 100
RSA_BITS_MIN = 2_048

_OF_RSA = ("RS256", "RS384", "RS512")
_OF_CURVE = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}
_JWS = PyJWS([*_OF_RSA, *(each for family in _OF_CURVE.values() for each in family)])


class KeySetError(Exception):
    """What should be a key set is none; the message says why."""


class SignatureRefusedError(Exception):
    """A token was not signed by a key of the set; the message holds nothing of it."""


class UnknownKeyError(Exception):
    """The set has no key of the id that a token names."""


class KeySet:
    """Public keys by their ids, each with the algorithms that it may have signed with."""

    def __init__(self, data: bytes) -> None:
        """Read a JWKS document; keys of other kinds are left out (spec IDN-6).

        Raises:
            KeySetError: It is malformed, has too many keys, or none that can be used.
        """
        self.data = data
        self._keys = {}
        for entry in _entries(data):
            kid, algorithms = entry.get("kid"), _algorithms(entry)
            if isinstance(kid, str) and kid and algorithms:
                key = _public_key(entry, algorithms[0])
                if key is not None:
                    self._keys[kid] = (key, algorithms)
        if not self._keys:
            raise KeySetError("the key set has no RSA or EC key with a key id (kid) for signatures")

    def claims(self, token: str) -> Mapping[str, object]:
        """Return the claims of a token that a key of this set has signed.

        Raises:
            SignatureRefusedError: It is no signed JWT, or its signature does not hold.
            UnknownKeyError: Its key is not in the set.
        """
        header = _header(token)
        kid = header.get("kid")
        if not isinstance(kid, str):
            raise SignatureRefusedError("the token names no key (kid)")
        known = self._keys.get(kid)
        if known is None:
            raise UnknownKeyError
        key, algorithms = known
        try:
            payload = _JWS.decode_complete(token, key, algorithms=list(algorithms))["payload"]
        except jwt.InvalidAlgorithmError:
            raise SignatureRefusedError(
                f"the token's algorithm is not {' or '.join(algorithms)}, as its key demands"
            ) from None
        except (jwt.PyJWTError, ValueError, TypeError):
            raise SignatureRefusedError("the token's signature does not hold") from None
        return _object(payload)


def _header(token: str) -> Mapping[str, object]:
    try:
        return _JWS.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise SignatureRefusedError("the token is no signed JWT") from None


def _object(payload: bytes) -> Mapping[str, object]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise SignatureRefusedError("the token's claims are no JSON object")
    return claims


def _entries(data: bytes) -> list[Mapping[str, Any]]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise KeySetError("the key set is no JSON document") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise KeySetError("the key set is no JSON object with a list of keys")
    if len(entries) > KEYS_MAX:
        raise KeySetError(f"the key set has {len(entries)} keys, more than {KEYS_MAX}")
    return entries


def _algorithms(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a key may sign with: by its kind and curve, and its own word if it has one."""
    if entry.get("use", "sig") != "sig":
        return ()
    of_kind: tuple[str, ...] = ()
    if entry.get("kty") == "RSA":
        of_kind = _OF_RSA
    elif entry.get("kty") == "EC":
        of_kind = _OF_CURVE.get(str(entry.get("crv")), ())
    said = entry.get("alg")
    return of_kind if said is None else tuple(each for each in of_kind if each == said)


def _public_key(entry: Mapping[str, Any], algorithm: str) -> Any:  # noqa: ANN401 - cryptography's
    public = {name: value for name, value in entry.items() if name not in {"d", "p", "q"}}
    try:
        key = jwt.PyJWK(public, algorithm=algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if isinstance(key, RSAPublicKey) and key.key_size < RSA_BITS_MIN:
        return None
    return key
