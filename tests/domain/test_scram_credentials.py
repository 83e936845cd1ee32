"""What is kept of passwords: keys of RFC 5802 and 7677, and what may not be kept."""

import base64

import pytest

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.scram_credentials import (
    ScramCredential,
    ScramMechanism,
    check_credential,
    check_user,
    credential_of,
    salted_password,
)

KEPT = ScramCredential(b"salt" * 2, 4_096, b"s" * 32, b"k" * 32)


def test_keys_are_those_of_rfc_7677():
    """KLS-25: the example of the RFC, whose proof only this stored key takes."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    mechanism = ScramMechanism.SHA_256
    salted = salted_password(mechanism, "pencil", salt, 4_096)
    found = credential_of(mechanism, salted, salt, 4_096)
    assert base64.b64encode(found.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    assert base64.b64encode(found.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    check_credential(mechanism, found)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_keys_are_as_long_as_the_hash(mechanism):
    """KLS-25."""
    found = credential_of(mechanism, salted_password(mechanism, "x", b"12345678", 4_096), b"8", 1)
    assert len(found.stored_key) == len(found.server_key) == mechanism.key_bytes
    assert mechanism.value == f"SCRAM-SHA-{mechanism.key_bytes * 8}"


@pytest.mark.parametrize(
    "change",
    [
        {"iterations": 4_095},
        {"iterations": 16_385},
        {"salt": b"short"},
        {"salt": b"s" * 65},
        {"stored_key": b"s" * 31},
        {"server_key": b""},
    ],
)
def test_what_would_not_protect_a_password_is_refused(change):
    """KLS-25."""
    check_credential(ScramMechanism.SHA_256, KEPT)
    with pytest.raises(RefusedError) as caught:
        check_credential(ScramMechanism.SHA_256, KEPT._replace(**change))
    assert caught.value.error is ErrorCode.UNACCEPTABLE_CREDENTIAL


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb"])
def test_a_name_that_no_user_can_have_is_refused(name):
    """KLS-25."""
    check_user("Ünlü, der/Erste")
    with pytest.raises(RefusedError):
        check_user(name)
