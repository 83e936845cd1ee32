"""One exception for each error code of spec ERR, with code, retriable flag and subject."""

import pytest

from sharemesh.client import errors
from sharemesh.client.errors import ServiceError, UnknownServerError, error_for, optional_error
from sharemesh.domain.errors import ErrorCode

RETRIABLE = {1, 2, 3, 5, 6, 7, 13, 14, 15, 16, 56, 74, 100, 122, 123, 133}
FINAL = {-1, 17, 23, 24, 25, 29, 30, 31, 35, 42, 68, 69, 81, 110, 121, 124}


@pytest.mark.parametrize("code", sorted(RETRIABLE | FINAL))
def test_each_code_of_the_table_has_an_exception_of_its_own(code):
    error = error_for(code, "why", about="group g")
    assert (error.code, error.retriable) == (code, code in RETRIABLE)
    assert error.about == "group g"
    assert "why" in str(error)
    assert "group g" in str(error)


@pytest.mark.parametrize(
    ("about", "words", "said"),
    [
        ("group nosuch", "group 'nosuch' not found", "group 'nosuch' not found"),
        ("topic orders", "topic 'orders' exists already", "topic 'orders' exists already"),
        ("topic orders", "does not exist", "topic orders: does not exist"),
        ("group not", "group not found", "group not found"),
        ("group g", "the log is gone", "group g: the log is gone"),
        ("orders/3", "orders/3 has no leader", "orders/3 has no leader"),
        ("", "out of range", "out of range"),
    ],
)
def test_what_it_is_about_is_said_once(about, words, said):
    assert str(error_for(69, words, about=about)) == said


def test_no_two_codes_share_an_exception():
    kinds = [type(error_for(code)) for code in ErrorCode if code != ErrorCode.NONE]
    assert len(set(kinds)) == len(kinds)
    named = {
        k for k in vars(errors).values() if isinstance(k, type) and ServiceError in k.__bases__
    }
    assert named == set(kinds)


def test_a_code_that_nobody_knows_is_an_unknown_server_error():
    error = error_for(999, "strange")
    assert isinstance(error, UnknownServerError)
    assert "999" in str(error)
    assert optional_error(0) is None


def test_a_class_of_an_application_has_the_code_of_its_parent_or_its_own():
    class TooOldError(errors.OffsetOutOfRangeError):
        pass

    class TooNewError(ServiceError):
        code = ErrorCode.UNKNOWN_LEADER_EPOCH

    assert TooOldError.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert TooNewError().code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert type(error_for(ErrorCode.UNKNOWN_LEADER_EPOCH)) is errors.UnknownLeaderEpochError
