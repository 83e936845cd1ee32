"""Reads rows of JSON lines, CSV or text as records; a malformed row is named by its line."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

LINE_LENGTH_MAX = 16 * 1024 * 1024
"""Characters of one line; more is not a file of rows."""

FORMATS = ("jsonl", "csv", "text")


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row as a record."""

    line: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class RowError(Exception):
    """A row cannot be a record.

    Attributes:
        line: Its line number in the input, from 1 on.
    """

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


Parsed = InputRow | RowError


@dataclass(frozen=True, slots=True)
class RowReader:
    """How rows become records.

    Attributes:
        form: ``jsonl``, ``csv`` (first line: names) or ``text`` (a line is a value).
        key_field: Field that becomes the key; None: no key.
        header_fields: Fields that become headers.
        keep: Whether key and header fields stay in the value too.
        value_field: Field that is the whole value; None: the whole row as JSON.
    """

    form: str = "jsonl"
    key_field: str | None = None
    header_fields: Sequence[str] = ()
    keep: bool = True
    value_field: str | None = None

    def read(self, lines: Iterable[str]) -> Iterator[Parsed]:
        """Yield a row, or why it is none, for each line that is not blank."""
        if self.form == "csv":
            return self._csv(lines)
        parse = self._text if self.form == "text" else self._json
        return self._each(lines, parse)

    def _each(
        self, lines: Iterable[str], parse: Callable[[int, str], InputRow]
    ) -> Iterator[Parsed]:
        for number, line in enumerate(lines, start=1):
            text = line.rstrip("\r\n")
            if not text.strip() and self.form != "text":
                continue
            try:
                if len(text) > LINE_LENGTH_MAX:
                    raise RowError(number, f"longer than {LINE_LENGTH_MAX} characters; split it")
                yield parse(number, text)
            except RowError as error:
                yield error

    def _text(self, number: int, text: str) -> InputRow:
        return InputRow(number, None, _encoded(number, text), ())

    def _json(self, number: int, text: str) -> InputRow:
        try:
            found = json.loads(text)
        except ValueError as error:
            reason = getattr(error, "msg", str(error))
            column = getattr(error, "colno", 0)
            raise RowError(
                number, f"not JSON ({reason} at column {column}); one JSON value a line is needed"
            ) from None
        needs_fields = self.key_field or self.header_fields or self.value_field
        if not isinstance(found, dict):
            if needs_fields:
                kind = type(found).__name__
                raise RowError(number, f"{kind} has no fields; a JSON object is needed")
            return InputRow(number, None, _encoded(number, text), ())
        return self._fields(number, found, text if self.keep else None)

    def _csv(self, lines: Iterable[str]) -> Iterator[Parsed]:
        reader = csv.reader(lines, strict=True)
        names: list[str] = []
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield RowError(reader.line_num, f"not CSV ({error}); check the quotes")
                continue
            number = reader.line_num
            if not names:
                names = cells
                continue
            if not cells:
                continue
            if len(cells) != len(names):
                yield RowError(
                    number, f"{len(cells)} fields, but the first line names {len(names)}"
                )
                continue
            try:
                yield self._fields(number, dict(zip(names, cells, strict=True)), None)
            except RowError as error:
                yield error

    def _fields(self, number: int, fields: dict[str, object], text: str | None) -> InputRow:
        wanted = [*([self.key_field] if self.key_field else []), *self.header_fields]
        if self.value_field:
            wanted.append(self.value_field)
        for name in wanted:
            if name not in fields:
                known = ", ".join(list(fields)[:10])
                raise RowError(number, f"there is no field {name!r} (fields: {known})")
        key = None if self.key_field is None else _plain(number, fields[self.key_field])
        headers = tuple((name, _plain(number, fields[name])) for name in self.header_fields)
        if self.value_field is not None:
            return InputRow(number, key, _plain(number, fields[self.value_field]), headers)
        if not self.keep:
            fields = {name: value for name, value in fields.items() if name not in wanted}
        value = text if text is not None else json.dumps(fields, ensure_ascii=False)
        return InputRow(number, key, _encoded(number, value), headers)


def _plain(number: int, value: object) -> bytes | None:
    """Return text as it is and everything else as JSON; null as no bytes at all."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _encoded(number, text)


def _encoded(number: int, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise RowError(number, "not UTF-8 text; convert the file to UTF-8") from None
