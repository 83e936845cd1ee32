"""The committed generated code is what protos/ makes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_generated_messages_are_what_the_protos_make(tmp_path):
    protos = sorted(
        path.relative_to(ROOT / "protos").as_posix() for path in (ROOT / "protos").rglob("*.proto")
    )
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        "-Iprotos",
        f"--python_out={tmp_path}",
        f"--pyi_out={tmp_path}",
        *protos,
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    made = sorted(tmp_path.rglob("*pb2.py*"))
    assert len(made) == 2 * len(protos)
    for path in made:
        committed = ROOT / "services" / path.relative_to(tmp_path)
        assert committed.read_text() == path.read_text(), (
            f"{committed.name} is stale: run `make protos` and commit the result"
        )
