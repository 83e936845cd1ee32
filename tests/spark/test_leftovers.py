"""What killed runs leave behind goes, and what a run still writes stays."""

import os

from sharemesh_spark.generation.compact import LEFT_AFTER_S, remove_leftovers

NOW_S = 2_000_000_000


def write(folder, name, age_s):
    path = folder / name / "_temporary/0/part-0.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half")
    for each in (path, *path.parents):
        if each == folder:
            break
        os.utime(each, (NOW_S - age_s, NOW_S - age_s))


def test_unfinished_folders_go_when_nothing_in_them_changed_for_a_day(tmp_path):
    assert remove_leftovers(tmp_path / "absent", now_s=NOW_S) == 0
    write(tmp_path, "a.new", LEFT_AFTER_S + 1)
    write(tmp_path, "b.new", LEFT_AFTER_S)
    write(tmp_path, "c.new", LEFT_AFTER_S + 1)
    os.utime(tmp_path / "c.new/_temporary/0/part-0.parquet", (NOW_S, NOW_S))  # goes on
    write(tmp_path, "finished", LEFT_AFTER_S + 1)
    assert remove_leftovers(tmp_path, now_s=NOW_S) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"b.new", "c.new", "finished"}
    assert remove_leftovers(tmp_path, now_s=NOW_S) == 0
