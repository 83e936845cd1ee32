"""The Spark job without Spark, killed by SIGKILL at its n-th step: for tests, in a process alone.

A step is each thing that others could see: a file written (whole, and torn before that), a folder
renamed or made durable, a request to a coordinator (before it is sent, and before the answer is
read).
"""

import os
import shutil
import signal
from pathlib import Path

import pyarrow.parquet as pq

from sharemesh.codec.generation import FOLDER
from sharemesh_spark.generation import compact, generation_files
from sharemesh_spark.generation.compact import NotCommittedError, commit
from sharemesh_spark.generation.shard_fold import generation_of_shard


class Steps:
    def __init__(self, kill_at):
        self.passed = 0
        self._kill_at = kill_at

    def step(self):
        self.passed += 1
        if self.passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def write_file(self, path, data):
        """Write in two parts, so that a kill in between leaves a torn file."""
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
            file.flush()
            self.step()
            file.write(data[len(data) // 2 :])
        self.step()

    def around(self, module, name):
        real = getattr(module, name)

        def stepped(*arguments):
            self.step()
            result = real(*arguments)
            self.step()
            return result

        setattr(module, name, stepped)


class SteppedPath(type(Path())):
    """A path whose changes are steps."""

    steps = None

    def rename(self, target):
        self.steps.step()
        result = super().rename(target)
        self.steps.step()
        return result

    def write_text(self, text, **_):
        self.steps.write_file(Path(self), text.encode())

    def touch(self):
        super().touch()
        self.steps.step()


def run(data, shards, generation_id, kill_at, connection):
    """Compact and commit; tell the number of steps, or what was refused, at the end."""
    steps = SteppedPath.steps = Steps(kill_at)
    for module in (compact, generation_files):
        steps.around(module, "sync")
    data = SteppedPath(data)
    scratch = data / FOLDER / f"{generation_id}.new"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    steps.step()
    for shard in range(shards):
        whole = Path(data) / f"part-{shard}.scratch"
        pq.write_table(generation_of_shard(data, shard), whole)
        content = whole.read_bytes()
        whole.unlink()
        steps.write_file(Path(scratch) / f"part-{shard}.parquet", content)
    manifest = compact.publish(data, scratch, generation_id)

    def ask(request):
        steps.step()
        connection.send(request.SerializeToString())
        answer = compact.Response.FromString(connection.recv())
        steps.step()
        return answer

    try:
        commit(data, manifest, ask)
    except NotCommittedError as error:
        connection.send(str(error))
    connection.send(steps.passed)
