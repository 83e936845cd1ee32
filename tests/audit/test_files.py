"""Files of the audit log: modes, rotation, crashes, failing sinks (AUD-7, AUD-8)."""

import io
import json
import logging
import os
import shutil
import stat
import threading

import pytest

from sharemesh.audit import pump as pumps
from sharemesh.audit.events import line
from sharemesh.audit.files import AuditFiles, AuditStream, RotatedFile
from sharemesh.audit.outlets import SlowOutlet
from sharemesh.audit.pump import AuditPump
from sharemesh.audit.trail import Line
from tests.audit.events import change, refusal, trail


def files(directory, **options):
    options = {"bytes_max": 65_536, "files_max": 3} | options
    return AuditFiles(directory, "node/1", **options)


def a_line(event, name=""):
    return Line(0, event.is_change, line(event, "n", 0))


def test_changes_and_the_rest_have_files_of_their_own_for_their_user_alone(tmp_path):
    directory = tmp_path / "logs"
    sink = files(directory)
    sink.write([a_line(change()), a_line(refusal())])
    sink.close()
    found = {path.name: path for path in directory.iterdir()}
    assert set(found) == {"node_1.changes.jsonl", "node_1.access.jsonl"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in found.values()} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert json.loads(found["node_1.changes.jsonl"].read_text())["kind"] == "change"
    assert json.loads(found["node_1.access.jsonl"].read_text())["kind"] == "refusal"


def test_a_file_that_others_may_read_is_closed_to_them(tmp_path):
    path = tmp_path / "a.jsonl"
    path.touch(0o644)
    RotatedFile(path, bytes_max=100, files_max=2).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_size_is_bounded_and_the_oldest_lines_go(tmp_path):
    path = tmp_path / "a.jsonl"
    file = RotatedFile(path, bytes_max=100, files_max=3)
    texts = [b"%09d\n" % number for number in range(1_000)]
    for start in range(0, 1_000, 7):
        file.write(texts[start : start + 7])
    file.write(texts[:35])  # several files at once
    file.close()
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["a.jsonl", "a.jsonl.1", "a.jsonl.2"]
    assert all(each.stat().st_size <= 100 for each in tmp_path.iterdir())
    kept = b"".join((tmp_path / name).read_bytes() for name in reversed(names))
    assert b"".join(texts[:35]).endswith(kept)
    assert len(kept) > 200


def test_a_line_that_a_crash_has_torn_is_ended_before_the_next_one(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": ')
    file = RotatedFile(path, bytes_max=100, files_max=2)
    file.write([b'{"c": 3}\n'])
    file.close()
    assert path.read_bytes() == b'{"a": 1}\n{"b": \n{"c": 3}\n'


def test_a_file_that_was_moved_away_is_made_again(tmp_path):
    path = tmp_path / "a.jsonl"
    file = RotatedFile(path, bytes_max=100, files_max=2)
    file.write([b"1\n"])
    path.rename(tmp_path / "moved")
    file.write([b"2\n"])
    file.close()
    assert path.read_bytes() == b"2\n"


@pytest.mark.parametrize("step", ["_opened", "_generation"])
def test_a_rotation_that_fails_never_touches_another_file(tmp_path, monkeypatch, step):
    """AUD-7: descriptors have run out, the disk is full; a segment gets the next number."""
    path = tmp_path / "a.jsonl"
    file = RotatedFile(path, bytes_max=10, files_max=3)
    file.write([b"11111111\n"])

    def full(*_):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(file, step, full)
        with pytest.raises(OSError):
            file.write([b"22222222\n"])
    other = os.open(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    try:
        file.write([b"33333333\n"])
        os.write(other, b"record")
        os.fsync(other)
    finally:
        os.close(other)
    file.close()
    assert (tmp_path / "segment").read_bytes() == b"record"
    assert path.read_bytes() == b"33333333\n"
    assert (tmp_path / "a.jsonl.1").read_bytes() == b"11111111\n"


def test_a_directory_that_goes_and_comes_back_is_written_again(tmp_path):
    directory = tmp_path / "logs"
    directory.mkdir()
    file = RotatedFile(directory / "a.jsonl", bytes_max=100, files_max=2)
    shutil.rmtree(directory)
    for _ in range(2):
        with pytest.raises(OSError):
            file.write([b"1\n"])
        with (tmp_path / "other").open("wb") as other:
            os.fstat(other.fileno())
    directory.mkdir()
    file.write([b"2\n"])
    file.close()
    file.close()  # what is closed twice closes nobody else's
    assert (directory / "a.jsonl").read_bytes() == b"2\n"


def test_a_directory_that_cannot_be_used_is_an_error_at_once(tmp_path):
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(OSError):
        files(tmp_path / "logs")


class Failing:
    def __init__(self, failures):
        self.failures = failures
        self.lines = []

    def write(self, lines):
        if self.failures:
            self.failures -= 1
            raise OSError(28, "No space left on device")
        self.lines += lines
        return 0

    def close(self):
        pass


def test_a_sink_that_fails_costs_its_own_copy_and_is_said_once(caplog, monkeypatch):
    """AUD-8."""
    log, bad, good = trail(), Failing(3), Failing(0)
    pump = AuditPump(log, [bad, good])
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            log.note(change(f"t{number}"))
            pump._drain(ending=False)
    assert (pump.failed, len(bad.lines), len(good.lines)) == (3, 2, 5)
    [said] = [each.getMessage() for each in caplog.records]
    assert "No space left on device" in said


def test_a_sink_that_blocks_keeps_nobody_waiting(monkeypatch):
    """AUD-8: a pipe that nobody reads; events are dropped and counted."""
    monkeypatch.setattr(pumps, "INTERVAL_S", 0.001)
    monkeypatch.setattr(pumps, "FLUSH_TIMEOUT_S", 0.01)
    monkeypatch.setattr(pumps, "BATCH_BYTES", 1)
    going, entered = threading.Event(), threading.Event()

    class Blocked(Failing):
        def write(self, lines):
            entered.set()
            going.wait(20)
            return super().write(lines)

    log, sink = trail(queue_bytes_max=10_000), Blocked(0)
    pump = AuditPump(log, [sink])
    pump.start()
    log.note(change("first"))
    assert entered.wait(20)
    for number in range(1_000):
        log.note(change(f"t{number}"))
    assert log.dropped > 900
    pump.close()  # bounded too; what is left is counted
    assert pump.failed == 1, "the one that is being written"
    going.set()
    pump._thread.join(20)
    assert (len(sink.lines), pump.failed) == (1, 0)
    assert len(sink.lines) + log.dropped == 1_001


def test_a_slow_collector_keeps_no_file_waiting_and_what_it_leaves_is_counted(monkeypatch, caplog):
    """AUD-8, AUD-10: five seconds for each export, while the process writes and ends."""
    monkeypatch.setattr(pumps, "INTERVAL_S", 0.001)
    monkeypatch.setattr(pumps, "FLUSH_TIMEOUT_S", 20)
    going, entered, kept = threading.Event(), threading.Event(), threading.Event()

    class Kept(Failing):
        def write(self, lines):
            lost = super().write(lines)
            if len(self.lines) == 3:
                kept.set()
            return lost

    class Hung(Failing):
        def write(self, lines):
            entered.set()
            going.wait(20)
            return super().write(lines)

    log, files, hung = trail(), Kept(0), Hung(0)
    pump = AuditPump(log, [files], hung)
    pump.start()
    try:
        log.note(change("first"))
        assert entered.wait(20)
        log.note(change("second"))
        log.note(change("third"))
        assert kept.wait(20), "while the collector hangs"
        log.note(change("last"))
        close = pump._slow.close
        monkeypatch.setattr(pump._slow, "close", lambda _: close(0.01))
        pump.close()
        assert (len(files.lines), log.dropped) == (4, 0)
        assert pump.failed == 4, "one under way, three queued"
        assert "the collector did not take 4 in time" in caplog.text
    finally:
        going.set()
    pump._slow._thread.join(20)
    assert (len(hung.lines), pump.failed) == (1, 3)


def test_the_queue_of_a_collector_is_bounded(caplog):
    """AUD-8."""
    slow = SlowOutlet(Failing(0), queue_bytes_max=1_000)
    slow.put([a_line(change(f"t{number}")) for number in range(100)])
    assert slow.failed > 90
    slow.put([a_line(change())] * 10)
    assert caplog.text.count("faster than the collector takes") == 1


def test_stdout_has_lines_with_a_marker(tmp_path):
    """AUD-7."""
    stream = io.BytesIO()
    sink = AuditStream(stream)
    sink.write([a_line(change()), a_line(refusal())])
    sink.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert all(each.startswith(b'{"log": "audit", ') for each in lines)
