"""Log lines: one an event, for people and for collectors."""

import io
import json
import logging

import pytest

from sharemesh.telemetry.logs import set_up_logs


@pytest.fixture
def root():
    root = logging.getLogger()
    before = list(root.handlers), root.level
    yield root
    root.handlers[:], _ = before
    root.setLevel(before[1])


def lines(root, log_format: str) -> list[str]:
    stream = io.StringIO()
    set_up_logs(log_format=log_format, level="info", origin={"role": "r"}, stream=stream)
    logger = logging.getLogger("sharemesh.test")
    logger.debug("not shown")
    logger.info("it happened", extra={"partition": 3, "why": 'a "b"\nc'})
    try:
        raise KeyError("x")
    except KeyError:
        logger.exception("failed")
    return stream.getvalue().splitlines()


def test_text_lines_are_key_value_and_quoted_where_needed(root) -> None:
    first, second = lines(root, "text")
    assert ' level=info logger=test role=r event="it happened" partition=3 why="a ' in first
    assert "\\n" in first
    assert "KeyError" in second


def test_json_lines_parse_and_carry_fields(root) -> None:
    first, second = (json.loads(line) for line in lines(root, "json"))
    assert first["event"] == "it happened"
    assert (first["partition"], first["role"], first["level"]) == (3, "r", "info")
    assert "KeyError" in second["exception"]


EVIL = "g\x1b]0;pwned\x07\rlevel=info\x9b31m\u202egpj\u2028"
SEEN = r"g\u001b]0;pwned\u0007\rlevel=info\u009b31m\u202egpj\u2028"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_line_shows_control_characters_as_text_bnd_24(root, log_format) -> None:
    stream = io.StringIO()
    set_up_logs(log_format=log_format, level="info", origin={"role": "r"}, stream=stream)
    logging.getLogger("sharemesh.test").warning("group %s", EVIL, extra={"group": EVIL})
    line = stream.getvalue().removesuffix("\n")
    assert line.isprintable()
    assert line.count(SEEN) == 2
    if log_format == "json":
        assert json.loads(line)["group"] == EVIL
