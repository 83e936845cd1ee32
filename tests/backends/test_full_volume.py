"""A volume that is full in the middle of an append: a small tmpfs in a mount namespace."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("full_volume.py")
MOUNTED = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'


@pytest.mark.integration
@pytest.mark.parametrize("seed", range(4))
def test_an_append_that_meets_the_end_of_the_volume_loses_nothing(tmp_path, seed):
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED]
    done = subprocess.run(
        [*namespace, str(tmp_path), sys.executable, str(SCRIPT), str(tmp_path), str(seed)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("ok\n")
    assert "append or sync failed" in done.stdout
