"""What the claims of a bearer token must say to name a caller (spec IDN-1); pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sharemesh.domain.printable import has_controls

LEEWAY_MS = 30_000
"""How much the clocks of issuer and process may differ."""

SUBJECT_CHARS_MAX = 990
"""With ``User:`` before it a principal stays below every bound of principals."""

TOKEN_CHARS_MAX = 8_192
"""Longer tokens are refused before anything is parsed (spec IDN-5)."""

_LAST_MS = 1 << 53


class BearerName(NamedTuple):
    """Whom a token names, and until when (wall time, the leeway included)."""

    principal: str
    ends_wall_ms: int


@dataclass(frozen=True, slots=True)
class TokenRefusal:
    """Why a token does not hold, in words without any of it.

    ``stale``: the same caller may be let in later, or with a newer token of the same kind.
    """

    why: str
    stale: bool = False


def name_of(
    claims: Mapping[str, object], *, issuer: str, audience: str, now_wall_ms: int
) -> BearerName | TokenRefusal:
    """Return whom claims name whose signature holds, or why nobody."""
    ends_ms = _time_ms(claims.get("exp"))
    starts_ms = _time_ms(claims.get("nbf", 0))
    subject = claims.get("sub")
    if claims.get("iss") != issuer:
        return TokenRefusal(f"the token is not of the issuer {issuer}")
    if not _is_for(claims.get("aud"), audience):
        return TokenRefusal(
            f"the token is not for the audience {audience}: ask its issuer for one that is"
        )
    if ends_ms is None or starts_ms is None:
        return TokenRefusal("the token's times (exp, nbf) are missing or no times")
    if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_CHARS_MAX:
        return TokenRefusal(f"the token's subject is not a text of 1 to {SUBJECT_CHARS_MAX}")
    if has_controls(subject):
        return TokenRefusal("the token's subject has a control character")
    if now_wall_ms >= ends_ms + LEEWAY_MS:
        return TokenRefusal("the token has expired: send a newer one", stale=True)
    if now_wall_ms < starts_ms - LEEWAY_MS:
        return TokenRefusal(
            "the token is not valid yet: compare the clocks of issuer and server", stale=True
        )
    return BearerName(f"User:{subject}", ends_ms + LEEWAY_MS)


def _is_for(audience: object, wanted: str) -> bool:
    return audience == wanted or (isinstance(audience, list) and wanted in audience)


def _time_ms(seconds: object) -> int | None:
    """Return a NumericDate in milliseconds; None of what is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    if not 0 <= seconds < _LAST_MS / 1_000:
        return None
    return int(seconds * 1_000)
