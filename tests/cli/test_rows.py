"""Rows of files as records; malformed ones are named by their line."""

import json

from sharemesh.cli.rows import InputRow, RowError, RowReader


def read(text: str, **how) -> list:
    return list(RowReader(**how).read(text.splitlines(keepends=True)))


def test_json_lines_keep_their_text_and_give_key_and_headers():
    rows = read(
        '{"id": 7, "at": "x", "n": null}\n\n{"id": "a", "at": 1, "n": [1]}\n',
        key_field="id",
        header_fields=["at", "n"],
    )
    assert rows == [
        InputRow(1, b"7", b'{"id": 7, "at": "x", "n": null}', (("at", b"x"), ("n", None))),
        InputRow(3, b"a", b'{"id": "a", "at": 1, "n": [1]}', (("at", b"1"), ("n", b"[1]"))),
    ]


def test_key_and_header_fields_can_be_left_out_of_the_value():
    (row,) = read('{"id": 7, "at": 1, "v": 2}', key_field="id", header_fields=["at"], keep=False)
    assert json.loads(row.value) == {"v": 2}
    (row,) = read('{"id": 7, "v": "plain"}', value_field="v")
    assert row.value == b"plain"


def test_a_malformed_row_is_named_and_the_next_one_is_read():
    bad, good, field, kind = read('{"id": 1\n{"id": 2}\n{"no": 1}\n[1]\n', key_field="id")
    assert isinstance(bad, RowError)
    assert str(bad).startswith("line 1: not JSON")
    assert good.key == b"2"
    assert str(field) == "line 3: there is no field 'id' (fields: no)"
    assert str(kind) == "line 4: list has no fields; a JSON object is needed"


def test_any_json_value_is_a_record_when_no_field_is_asked_for():
    assert [row.value for row in read('1\n"x"\n[2]\n')] == [b"1", b'"x"', b"[2]"]


def test_csv_rows_become_json_objects_by_the_names_of_the_first_line():
    rows = read('a,b\n1,"x, ""y"""\n2\n3,4\n', form="csv", key_field="a")
    assert rows[0] == InputRow(2, b"1", b'{"a": "1", "b": "x, \\"y\\""}', ())
    assert str(rows[1]) == "line 3: 1 fields, but the first line names 2"
    assert rows[2].key == b"3"


def test_csv_with_broken_quotes_is_named():
    rows = read('a,b\n1,"x"y\n3,4\n', form="csv")
    assert isinstance(rows[0], RowError)
    assert "check the quotes" in str(rows[0])


def test_text_lines_are_values_and_blank_ones_count():
    assert [row.value for row in read("x\n\ny\r\n", form="text")] == [b"x", b"", b"y"]


def test_bytes_that_are_no_utf8_are_named():
    (bad,) = read(b"a\xff\n".decode("utf-8", "surrogateescape"), form="text")
    assert str(bad) == "line 1: not UTF-8 text; convert the file to UTF-8"
