"""Remembered answers are bounded by bytes, not by number (spec BND-21)."""

from sharemesh.remembered import ENTRY_BYTES, Remembered


def test_answers_are_forgotten_when_there_is_no_room_bnd_21():
    asked = []
    known = Remembered(1_000)

    def ask(name):
        return known.answer(name, (name,), lambda: asked.append(name) or len(asked))

    assert [ask("a"), ask("b"), ask("a")] == [1, 2, 1]
    assert 2 * ENTRY_BYTES < known.size_bytes <= 1_000
    long = "x" * 600
    assert ask(long) == 3
    assert [len(known), ask(long)] == [1, 3]
    assert ask("y" * 2_000) == 4  # it has no room at all
    assert (len(known), known.size_bytes) == (0, 0)
    assert ask("a") == 5


def test_false_is_an_answer_too_bnd_21():
    asked = []
    known = Remembered(1_000)
    for _ in range(3):
        assert known.answer("q", ("q",), lambda: bool(asked.append(1))) is False
    assert asked == [1]
