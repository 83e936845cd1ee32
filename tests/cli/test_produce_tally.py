"""What produce says in the end is enough to resume from; progress is shown off a terminal too."""

import io
import threading

from rich.console import Console

from sharemesh.cli.produce_tally import Tally, confirmed_so_far
from sharemesh.cli.rows import RowError
from sharemesh.cli.session import CommandSession
from sharemesh.client.producer.delivery import RecordMetadata


def confirmed(tally: Tally, line: int) -> None:
    tally.settled(line, RecordMetadata("t", line % 2, line, 0), None)


def test_nothing_sent_means_from_the_first_line():
    assert Tally().done_to_line == 0
    assert Tally().resume_at == "no row is confirmed: resume from line 1"


def test_all_settled_means_behind_the_last_line_blank_and_skipped_ones_included():
    tally = Tally()
    for line in (2, 3, 7):
        tally.taken(line)
    for line in (7, 2, 3):
        confirmed(tally, line)
    tally.skipped(RowError(8, "no JSON"))
    assert tally.done_to_line == 8
    assert tally.resume_at == "every row up to line 8 is confirmed: resume from line 9"
    assert tally.summary("t") == (
        "3 records confirmed in topic t (0@2..2, 1@3..7), 1 malformed row not sent"
    )


def test_the_first_row_without_a_confirmation_is_resume_at():
    tally = Tally()
    for line in range(1, 6):
        tally.taken(line)
    for line in (1, 2, 4):
        confirmed(tally, line)
    tally.settled(5, None, ValueError("too late"))
    assert tally.done_to_line == 2
    assert tally.resume_at == (
        "every row up to line 2 is confirmed: resume from line 3 (some of them may be in the log "
        "already)"
    )
    assert tally.as_json("t")["done_to_line"] == 2
    assert (tally.failed, tally.first_failure) == (1, "too late")


class Told(io.StringIO):
    """A stderr that says when it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if "\n" in text:
            self.written.set()
        return count


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal():
    err = Told()
    session = CommandSession({}, False, 1, Console(file=io.StringIO()), Console(file=err))
    with confirmed_so_far(session, lambda: 1_234, line_every_s=0.01):
        assert err.written.wait(10)
    assert err.getvalue().splitlines() == ["1234 records confirmed so far"]
