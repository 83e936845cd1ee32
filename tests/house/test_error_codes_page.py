"""The reference of the error codes says what the code has."""

from sharemesh.client.errors import error_for
from sharemesh.domain.errors import ErrorCode
from tests.house.error_codes_page import ADVICE, PAGE, page


def test_the_page_is_what_the_code_says():
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs"


def test_every_code_has_an_advice_and_an_error_of_its_own():
    codes = set(ErrorCode) - {ErrorCode.NONE}
    assert ADVICE.keys() == codes
    assert len({type(error_for(code)) for code in codes}) == len(codes)
