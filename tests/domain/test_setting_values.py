"""Settings by any name read their values alike."""

import pytest

from sharemesh.domain.setting_values import (
    SettingValueError,
    decimal_number,
    is_written_whole,
    nearest,
    one_of,
    true_or_false,
    unknown_setting,
    whole_number,
)

OTHER_DIGITS = ("\uff11\uff10", "\u0663", "1\u0663")
"""Full width, and Arabic: Python reads them as 10, 3 and 13."""


def test_bounds_of_whole_numbers_are_inclusive():
    assert [whole_number(given, 1, 9) for given in (1, "9")] == [1, 9]
    for given in (0, "10"):
        with pytest.raises(SettingValueError, match=r"is not within 1\.\.9"):
            whole_number(given, 1, 9)
    assert whole_number(-5, None, None) == -5


@pytest.mark.parametrize("given", [True, 1.5, "1.5", "", None, "ten"])
def test_what_is_no_whole_number_is_refused(given):
    with pytest.raises(SettingValueError, match="is not a whole number"):
        whole_number(given, None, None)


@pytest.mark.parametrize(
    "given", [*OTHER_DIGITS, "1_000", "0x10", "1 0", "--1", pytest.param("1" * 5_000, id="long")]
)
def test_cfg_43_whole_numbers_are_written_in_the_digits_0_to_9(given):
    with pytest.raises(SettingValueError, match="is not a whole number, written in the digits 0"):
        whole_number(given, None, None)


@pytest.mark.parametrize("given", [*OTHER_DIGITS, "1_0.5", "inf", "nan", "1e", ".", ""])
def test_cfg_43_decimal_numbers_are_written_in_the_digits_0_to_9(given):
    with pytest.raises(SettingValueError, match="is not a number, written in the digits 0 to 9"):
        decimal_number(given, float("-inf"), float("inf"))


def test_cfg_43_signs_points_and_exponents_are_taken():
    assert [whole_number(text, None, None) for text in ("+5", "-5", " 007 ")] == [5, -5, 7]
    wanted = {"1.5": 1.5, "2.": 2.0, ".5": 0.5, "-1": -1.0, "+1e3": 1e3, "1.5E-1": 0.15}
    assert {text: decimal_number(text, -10, 1e4) for text in wanted} == wanted


def test_truth_values_are_written_in_any_case():
    assert [true_or_false(given) for given in (True, "TRUE", False, "false")] == [
        True,
        True,
        False,
        False,
    ]
    for given in ("yes", 1, None):
        with pytest.raises(SettingValueError, match="is neither true nor false"):
            true_or_false(given)


def test_a_choice_is_one_of_those_that_are_named():
    assert one_of("os", ("fsync", "os")) == "os"
    with pytest.raises(SettingValueError, match="is not one of fsync, os"):
        one_of("none", ("fsync", "os"))


def test_an_unknown_name_is_answered_with_the_nearest():
    known = ("listen_host", "listen_port")
    assert unknown_setting("listen_prot", known, " in x.toml") == (
        "unknown setting 'listen_prot' in x.toml; did you mean listen_port?"
    )
    assert unknown_setting("anything", ()) == "unknown setting 'anything'"
    assert nearest("zzz", known, cutoff=0.5) == ""
    assert "a" * 101 not in unknown_setting("a" * 500, known)


@pytest.mark.parametrize("text", ["", "-1", "1.0", " 7", "\u00b2", "9" * 19, *OTHER_DIGITS])
def test_cfg_43_what_is_no_number_of_64_bits_in_the_digits_0_to_9_is_none(text):
    assert not is_written_whole(text)
    assert is_written_whole("0")
    assert is_written_whole("9" * 18)
