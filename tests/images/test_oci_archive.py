"""Image archives: the same content makes the same image, and a thin one leaves bases out."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from images.oci_archive import ImageConfig, Layer, digest, write_image, write_layer

CONFIG = ImageConfig(
    user="10001:10001", work_directory="/app", environment=("A=b",), command=("run",)
)


@pytest.fixture
def layers(tmp_path: Path) -> list[Layer]:
    made = []
    for name, base in (("base", True), ("source", False)):
        tree = tmp_path / name
        (tree / "inner").mkdir(parents=True)
        (tree / "inner" / "file").write_text(name)
        (tree / "link").symlink_to("inner/file")
        tar = tmp_path / f"{name}.tar"
        write_layer(tar, [(tree, f"/opt/{name}")])
        made.append(Layer(tar, base=base))
    return made


def blobs(archive: Path) -> dict[str, bytes]:
    """Return the files of an archive by name."""
    with tarfile.open(archive) as tar:
        return {
            info.name: opened.read()
            for info in tar
            if info.isfile() and (opened := tar.extractfile(info)) is not None
        }


def test_every_blob_is_named_by_its_digest_and_the_manifest_names_all(tmp_path, layers):
    out = tmp_path / "image.tar"
    found = write_image(out, "localhost/x:1", layers, CONFIG, thin=False)
    files = blobs(out)
    for name, data in files.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(data).hexdigest() == name.removeprefix("blobs/sha256/")
    manifest = json.loads(files[f"blobs/sha256/{found}"])
    for part in (manifest["config"], *manifest["layers"]):
        blob = files["blobs/sha256/" + part["digest"].removeprefix("sha256:")]
        assert len(blob) == part["size"]
    config = json.loads(files["blobs/sha256/" + manifest["config"]["digest"][7:]])
    assert config["config"]["User"] == "10001:10001"
    assert config["rootfs"]["diff_ids"] == [part["digest"] for part in manifest["layers"]]


def test_the_same_content_makes_the_same_image(tmp_path, layers):
    first = write_image(tmp_path / "a.tar", "localhost/x:1", layers, CONFIG, thin=False)
    assert first == write_image(tmp_path / "b.tar", "localhost/x:1", layers, CONFIG, thin=True)


def test_a_thin_archive_leaves_base_layers_out(tmp_path, layers):
    out = tmp_path / "thin.tar"
    write_image(out, "localhost/x:1", layers, CONFIG, thin=True)
    assert f"blobs/sha256/{digest(layers[0].tar)}" not in blobs(out)
    assert f"blobs/sha256/{digest(layers[1].tar)}" in blobs(out)


def test_files_of_a_layer_belong_to_root_and_links_stay_links(layers):
    with tarfile.open(layers[0].tar) as tar:
        members = {info.name: info for info in tar}
    assert members["opt/base/link"].issym()
    assert {(info.uid, info.gid, info.mtime) for info in members.values()} == {(0, 0, 0)}
    assert list(members)[:2] == ["opt", "opt/base"]


def test_a_changed_layer_gets_another_digest(tmp_path, layers):
    before = digest(layers[1].tar)
    (tmp_path / "source" / "inner" / "file").write_text("changed")
    write_layer(layers[1].tar, [(tmp_path / "source", "/opt/source")])
    assert digest(layers[1].tar) != before
