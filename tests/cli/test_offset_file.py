"""Start offsets go to CSV and come back; what cannot be read is named by its line."""

import pytest

from sharemesh.cli.offset_plan import offsets_as_csv, offsets_of_file
from sharemesh.cli.session import CommandError
from sharemesh.client.admin_results import TopicPartition

OFFSETS = {TopicPartition("b", 0): 7, TopicPartition("a", 11): 0, TopicPartition("a", 2): 2**62}


@pytest.fixture
def written(tmp_path):
    def write(content: str | bytes) -> str:
        path = tmp_path / "offsets.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def test_what_is_exported_can_be_read_again(written):
    text = offsets_as_csv(OFFSETS)
    assert text == "a,2,4611686018427387904\na,11,0\nb,0,7\n"
    assert offsets_of_file(written(text)) == OFFSETS
    assert offsets_of_file(written("a, 1, 5\r\n\r\nb,0,1")) == {
        TopicPartition("a", 1): 5,
        TopicPartition("b", 0): 1,
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no row"),
        ("a,0\n", "line 1: 'a,0': expected topic,partition,offset"),
        ("a,0,1\ntopic,partition,offset\n", "line 2: 'topic,partition,offset': expected"),
        ("a,0,-1\n", "expected topic,partition,offset"),
        (f"a,0,{2**62 + 1}\n", "larger than any offset"),
        ("a,0,1\na,0,2\n", "line 2: a/0 stands in the file twice"),
        ('"a,0,1\n', "not CSV"),
        (b"a\xff,0,1\n", "no UTF-8"),
    ],
)
def test_what_is_no_row_of_offsets_is_refused_by_its_line(written, content, words):
    with pytest.raises(CommandError, match=words):
        offsets_of_file(written(content))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CommandError, match="No such file"):
        offsets_of_file(str(tmp_path / "none"))
