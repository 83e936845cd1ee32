"""The images by Docker, from the Dockerfiles here; archives come from `docker save`."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCKERFILES = {
    "sharemesh": "Dockerfile",
    "sharemesh-spark": "spark.Dockerfile",
    "etcd": "etcd.Dockerfile",
    "kafka": "kafka.Dockerfile",
}


def check_docker() -> None:
    """Exit with a message if Docker is missing or does not answer."""
    if shutil.which("docker") is None:
        raise SystemExit("images: docker is missing; install it, or run `make images` without it")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        raise SystemExit(
            "images: Docker does not answer (`docker info` says why); start it, or run"
            " `make images` without it"
        )


def build(image: str, out: Path, name: str) -> str:
    """Build an image and write its archive; return the hexadecimal id of the image."""
    if image not in DOCKERFILES:
        raise SystemExit(f"images: {image} has no Dockerfile; there are: {', '.join(DOCKERFILES)}")
    dockerfile = f"images/{DOCKERFILES[image]}"
    subprocess.run(
        ["docker", "build", "-q", "-f", dockerfile, "-t", name, "."], cwd=ROOT, check=True
    )
    subprocess.run(["docker", "save", "-o", str(out), name], check=True)
    shown = ["docker", "image", "inspect", "--format", "{{.Id}}", name]
    found = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
    return found.strip().removeprefix("sha256:")
