"""Writes OCI image archives from layer tars and folders, with no daemon and no registry.

Layers stay uncompressed: they are never pushed, and gzip is most of the time that a build takes.
A layer's digest is kept beside it while the tar is unchanged, so a base is hashed once.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer tar; a thin archive leaves the blobs of ``base`` layers out."""

    tar: Path
    base: bool


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What a container of the image starts with."""

    user: str
    work_directory: str
    environment: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, from the note beside it if the file is still the same."""
    note, stat = path.with_name(path.name + ".sha256"), path.stat()
    state = f"{stat.st_size} {stat.st_mtime_ns}"
    if note.exists():
        hexadecimal, _, noted = note.read_text().partition(" ")
        if noted == state:
            return hexadecimal
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            sha.update(chunk)
    note.write_text(f"{sha.hexdigest()} {state}")
    return sha.hexdigest()


def _as_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def _walk(tree: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(tree):
        folders[:] = sorted(name for name in folders if name != ".git")
        yield from (Path(folder, name) for name in sorted([*folders, *files]))


def write_layer(tar: Path, parts: list[tuple[Path, str]]) -> None:
    """Lay each (tree, place in the image) into one tar: the same trees make the same digest."""
    part = tar.with_name(tar.name + ".part")
    made: set[str] = set()
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as archive:
        for tree, place in parts:
            steps = [step for step in place.split("/") if step]
            for depth in range(1, len(steps) + 1):
                name = "/".join(steps[:depth])
                if name not in made:
                    folder = tarfile.TarInfo(name)
                    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(folder)
                    made.add(name)
            for path in _walk(tree):
                name = "/".join([*steps, *path.relative_to(tree).parts])
                if name not in made:
                    archive.add(path, name, recursive=False, filter=_as_root)
                    made.add(name)
    part.rename(tar)


@contextmanager
def _blob_writer(out: Path) -> Iterator[tarfile.TarFile]:
    part = out.with_name(out.name + ".part")
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as archive:
        yield archive
    part.rename(out)


def _put(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _json(value: object) -> tuple[bytes, str]:
    data = json.dumps(value, sort_keys=True).encode()
    return data, hashlib.sha256(data).hexdigest()


def write_image(
    out: Path, name: str, layers: list[Layer], config: ImageConfig, *, thin: bool
) -> str:
    """Write the archive; return the manifest's digest.

    ``thin`` leaves the blobs of base layers out: for a node that has them already.
    """
    digests = [digest(layer.tar) for layer in layers]
    config_data, config_digest = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {
                "User": config.user,
                "WorkingDir": config.work_directory,
                "Env": list(config.environment),
                "Entrypoint": list(config.entrypoint) or None,
                "Cmd": list(config.command) or None,
                "Labels": config.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{d}" for d in digests]},
            "history": [],
        }
    )
    manifest_data, manifest_digest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {
                "mediaType": CONFIG_TYPE,
                "digest": f"sha256:{config_digest}",
                "size": len(config_data),
            },
            "layers": [
                {
                    "mediaType": LAYER_TYPE,
                    "digest": f"sha256:{d}",
                    "size": layer.tar.stat().st_size,
                }
                for d, layer in zip(digests, layers, strict=True)
            ],
        }
    )
    index_data, _ = _json(
        {
            "schemaVersion": 2,
            "manifests": [
                {
                    "mediaType": MANIFEST_TYPE,
                    "digest": f"sha256:{manifest_digest}",
                    "size": len(manifest_data),
                    "annotations": {
                        "io.containerd.image.name": name,
                        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
                    },
                }
            ],
        }
    )
    with _blob_writer(out) as archive:
        _put(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _put(archive, "index.json", index_data)
        _put(archive, f"blobs/sha256/{manifest_digest}", manifest_data)
        _put(archive, f"blobs/sha256/{config_digest}", config_data)
        for d, layer in dict(zip(digests, layers, strict=True)).items():
            if not (thin and layer.base):
                archive.add(layer.tar, f"blobs/sha256/{d}")
    return manifest_digest
