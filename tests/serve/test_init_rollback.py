"""What a refused first start leaves behind: nothing of its own, and all that is another's."""

from sharemesh.serve.supervise.data_directory import InitRollback


def test_what_was_made_in_an_empty_directory_goes_and_the_directory_stays(tmp_path) -> None:
    first = InitRollback(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "etcd.log").touch()
    (tmp_path / "cluster.json").touch()
    first.undo()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_was_made_goes_too(tmp_path) -> None:
    first = InitRollback(tmp_path / "data")
    (tmp_path / "data" / "etcd").mkdir(parents=True)
    first.undo()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_with_anything_in_it_is_never_touched(tmp_path) -> None:
    (tmp_path / "records").mkdir()
    first = InitRollback(tmp_path)
    (tmp_path / "logs").mkdir()
    first.undo()
    assert {each.name for each in tmp_path.iterdir()} == {"records", "logs"}
