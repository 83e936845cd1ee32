"""A coordinator that did nothing else before can read a generation: no import is left to chance."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sharemesh.codec.generation import (
    FORMAT_VERSION,
    Manifest,
    ShardManifest,
    arrow_schema,
    encode_manifest,
)
from sharemesh.domain.share_state.fold import Floors, content_hash

READ = """
import asyncio, sys
from pathlib import Path
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.domain.share_state.records import Generation
from sharemesh.share_coordinator.generations import GenerationReader

async def main():
    disk = SystemDisk(Path(sys.argv[1]))
    pointer = Generation(
        generation_id="g",
        path="generations/g/manifest.json",
        content_hash=bytes.fromhex(sys.argv[2]),
        **{name: 0 for name in Generation.__dataclass_fields__
           if name not in ("generation_id", "path", "content_hash")},
    )
    states, floors = await GenerationReader(disk).read(pointer, 0)
    print(len(states), floors.leader_epoch)

asyncio.run(main())
"""


def test_a_fresh_process_reads_a_generation(tmp_path: Path) -> None:
    folder = tmp_path / "generations" / "g"
    folder.mkdir(parents=True)
    row = dict.fromkeys(arrow_schema().names) | {"shard": 0, "kind": "floors"}
    row |= {"state_epoch": 2, "leader_epoch": 7}
    pq.write_table(pa.Table.from_pylist([row], schema=arrow_schema()), folder / "part.parquet")
    wanted = content_hash({}, Floors(2, 7)).hex()
    shard = ShardManifest(0, 1, 1, 0, 100, wanted, files=("part.parquet",))
    manifest = Manifest(FORMAT_VERSION, "g", "cluster", (shard,), 100)
    (folder / "manifest.json").write_text(encode_manifest(manifest))
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path), wanted],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["0", "7"], done.stderr
