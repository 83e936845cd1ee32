"""`python -m images`: the project's images as archives, without a registry.

Without Docker, base layers come from Debian's archive (mmdebstrap) and the Python package index
(pip), and are kept in the cache under a name made of what is in them. `--builder docker` builds the
Dockerfiles here; SHAREMESH_IMAGE_BUILDER=docker chooses it, too.
"""

import argparse
import compileall
import hashlib
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from images import docker_builder
from images.oci_archive import ImageConfig, Layer, write_image, write_layer

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
CACHE = Path(os.environ.get("SHAREMESH_CACHE") or Path.home() / ".cache" / "sharemesh")
LAYERS = CACHE / "layers"
SUITE = "bookworm"
PYTHON = (3, 11)  # what the suite has: wheels must be of that version
USER = "10001:10001"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHON_PACKAGES = "python3,ca-certificates"
SPARK_PACKAGES = "python3,ca-certificates,openjdk-17-jre-headless,procps"
ETCD_PROGRAMS = ("etcd", "etcdctl", "etcdutl")
JAVA_17 = "/usr/lib/jvm/java-17-openjdk-amd64"
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def key(*words: str) -> str:
    """Return a short name for what a layer is made of."""
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def check_machine() -> None:
    """Say in one sentence what is missing."""
    if shutil.which("mmdebstrap") is None:
        raise SystemExit("images: mmdebstrap is missing; run `deploy/machine/build.sh packages`")
    if sys.version_info[:2] != PYTHON:
        raise SystemExit(
            f"images: runs on Python {PYTHON[0]}.{PYTHON[1]}, as in Debian {SUITE}, whose wheels it"
            f" collects; this is {sys.version_info[0]}.{sys.version_info[1]}"
        )


def debian_layer(packages: str) -> Layer:
    """Return a minimal Debian with some packages, and with a user for the pods."""
    tar = LAYERS / f"debian-{key(SUITE, packages)}.tar"
    if not tar.exists():
        part = tar.with_name(tar.name + ".part.tar")
        no = [f"--dpkgopt=path-exclude=/usr/share/{what}/*" for what in ("man", "doc", "locale")]
        user = "sharemesh:x:10001:10001::/tmp:/usr/sbin/nologin"
        subprocess.run(
            [
                "mmdebstrap",
                "--quiet",
                "--variant=minbase",
                f"--include={packages}",
                '--aptopt=Acquire::Languages "none"',
                *no,
                '--setup-hook=mkdir -p "$1"/usr/share/man/man1',  # openjdk's scripts write there
                f'--customize-hook=echo "{user}" >> "$1"/etc/passwd',
                '--customize-hook=echo "sharemesh:x:10001:" >> "$1"/etc/group',
                '--customize-hook=cd "$1"/var && rm -rf cache/apt/* lib/apt/lists/* log/*',
                SUITE,
                str(part),
            ],
            check=True,
        )
        part.rename(tar)
    return Layer(tar, base=True)


def compile_tree(tree: Path, place: str) -> None:
    """Compile all modules: pods have a read-only root and could never keep what they compiled."""
    compileall.compile_dir(
        tree,
        quiet=2,
        stripdir=str(tree),
        prependdir=place,
        workers=1,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def packages_layer(place: str, lock: str) -> Layer:
    """Return a layer with the Python packages of a lock file."""
    requirements = REQUIREMENTS / f"{lock}.lock"
    tar = LAYERS / f"wheels-{key(place, requirements.read_text())}.tar"
    if not tar.exists():
        with tempfile.TemporaryDirectory(dir=LAYERS, prefix="wheels.") as scratch:
            site = Path(scratch, "site")
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
            quiet = ["--disable-pip-version-check", "--root-user-action=ignore"]
            # Source-only packages are built with what `make setup` installed by build.lock.
            locked = ["--require-hashes", "--no-build-isolation", "-r", str(requirements)]
            subprocess.run(
                [*pip, *quiet, "--no-warn-conflicts", "--target", str(site), *locked],
                check=True,
            )
            for tests in [*site.glob("**/tests"), *site.glob("pyarrow/include")]:
                shutil.rmtree(tests, ignore_errors=True)
            compile_tree(site, place)
            write_layer(tar, [(site, place)])
    return Layer(tar, base=True)


def source_layer(scratch: Path, trees: dict[str, str], programs: Path | None = None) -> Layer:
    """Return a layer with the project's packages (tree in the repository: place in the image)."""
    parts = []
    for tree, place in trees.items():
        copy = scratch / tree
        shutil.copytree(ROOT / tree, copy, ignore=LEFT_OUT)
        compile_tree(copy, place)
        parts.append((copy, place))
    if programs is not None:
        parts.append((programs, "/"))
    tar = scratch / "source.tar"
    write_layer(tar, parts)
    return Layer(tar, base=False)


def programs(scratch: Path, scripts: dict[str, str]) -> Path:
    """Return a tree with scripts (path in the image: text), executable."""
    tree = scratch / "programs"
    for path, text in scripts.items():
        file = tree / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    return tree


def sharemesh(out: Path, name: str, scratch: Path, *, thin: bool) -> str:
    """Services, command line and operator."""
    layers = [
        debian_layer(PYTHON_PACKAGES),
        packages_layer("/opt/site", "sharemesh"),
        source_layer(
            scratch,
            {"services": "/app/services", "operator": "/app/operator"},
            programs(
                scratch,
                {
                    "/usr/local/bin/sharemesh": '#!/bin/sh\nexec python3 -m sharemesh.cli "$@"\n',
                    "/usr/local/bin/sharemesh-operator": "#!/bin/sh\n"
                    'exec python3 -m sharemesh_operator "$@"\n',
                },
            ),
        ),
    ]
    config = ImageConfig(
        user=USER,
        work_directory="/app",
        environment=(
            PATH,
            "PYTHONPATH=/opt/site:/app/services:/app/operator",
            "PYTHONUNBUFFERED=1",
            "PYTHONDONTWRITEBYTECODE=1",
            "HOME=/tmp",
        ),
        command=("sharemesh", "--help"),
    )
    return write_image(out, name, layers, config, thin=thin)


def spark(out: Path, name: str, scratch: Path, *, thin: bool) -> str:
    """Spark with the project's job; as driver and executors on Kubernetes, too."""
    entrypoint = (ROOT / "images" / "spark" / "entrypoint.sh").read_text()
    layers = [
        debian_layer(SPARK_PACKAGES),
        packages_layer("/opt/site", "sharemesh-spark"),
        source_layer(
            scratch,
            {"services": "/app/services", "spark": "/app/spark"},
            programs(
                scratch,
                {
                    "/opt/entrypoint.sh": entrypoint,
                    "/usr/local/bin/sharemesh-spark": "#!/bin/sh\n"
                    'exec python3 -m sharemesh_spark "$@"\n',
                },
            ),
        ),
    ]
    config = ImageConfig(
        user=USER,
        work_directory="/tmp",  # noqa: S108 - the image's folder
        environment=(
            PATH,
            "SPARK_HOME=/opt/site/pyspark",
            f"JAVA_HOME={JAVA_17}",
            "PYTHONPATH=/opt/site:/app/services:/app/spark",
            "PYTHONUNBUFFERED=1",
            "PYTHONDONTWRITEBYTECODE=1",
            "HOME=/tmp",
        ),
        entrypoint=("/opt/entrypoint.sh",),
        command=("sharemesh-spark", "--help"),
    )
    return write_image(out, name, layers, config, thin=thin)


def etcd(out: Path, name: str, scratch: Path, *, thin: bool) -> str:
    """The etcd programs that deploy/machine built, and nothing else."""
    tree = scratch / "etcd" / "usr" / "local" / "bin"
    tree.mkdir(parents=True)
    for program in ETCD_PROGRAMS:
        built = CACHE / "bin" / program
        if not built.exists():
            raise SystemExit(f"images: {built} is missing; run `deploy/machine/build.sh` first")
        shutil.copy2(built, tree / program)
    tar = scratch / "etcd.tar"
    write_layer(tar, [(scratch / "etcd", "/")])
    config = ImageConfig(
        user=USER, work_directory="/", environment=(PATH,), command=("/usr/local/bin/etcd",)
    )
    return write_image(out, name, [Layer(tar, base=False)], config, thin=thin)


def kafka(out: Path, name: str, scratch: Path, *, thin: bool) -> str:
    """Apache Kafka, from the jars that the tests pin: a broker and its tools, for tests only."""
    from tests.kafka.jars import KafkaMissingError, jars
    from tests.kafka_listener.command_line_tools import tool_jars

    try:
        found, tools = jars(), tool_jars()
    except KafkaMissingError as error:
        raise SystemExit(f"images: {error}") from error
    tar = scratch / "kafka.tar"
    write_layer(tar, [(found, "/opt/kafka/libs"), (tools, "/opt/kafka/tools")])
    layers = [debian_layer(SPARK_PACKAGES), Layer(tar, base=False)]
    config = ImageConfig(
        user=USER,
        work_directory="/tmp",  # noqa: S108 - the image's folder
        environment=(PATH, f"JAVA_HOME={JAVA_17}", "HOME=/tmp"),
        command=("java", "-cp", "/opt/kafka/libs/*", "kafka.Kafka"),
    )
    return write_image(out, name, layers, config, thin=thin)


def pause(out: Path, name: str, scratch: Path, *, thin: bool) -> str:
    """Hold a pod's namespaces: for deploy/machine only."""
    built = CACHE / "bin" / "pause.d" / "pause"
    (scratch / "pause").mkdir()
    shutil.copy2(built, scratch / "pause" / "pause")
    tar = scratch / "pause.tar"
    write_layer(tar, [(scratch / "pause", "/")])
    config = ImageConfig(user="65535:65535", work_directory="/", entrypoint=("/pause",))
    return write_image(out, name, [Layer(tar, base=False)], config, thin=thin)


IMAGES = {
    "sharemesh": sharemesh,
    "sharemesh-spark": spark,
    "etcd": etcd,
    "kafka": kafka,
    "pause": pause,
}
PRODUCTS = ("sharemesh", "sharemesh-spark", "etcd")
OF_TESTS = ("kafka",)
"""What the end-to-end suite runs beside the products."""

BUILDERS = ("mmdebstrap", "docker")


def build(image: str, out: Path, name: str, *, thin: bool) -> str:
    """Build an image without Docker; return its digest."""
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".build.") as scratch:
        return IMAGES[image](out, name, Path(scratch), thin=thin)


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m images", description=__doc__)
    parser.add_argument("image", nargs="*", metavar="IMAGE", help=f"{', '.join(IMAGES)}")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "images")
    parser.add_argument("--registry", default="localhost", help="what stands before the names")
    parser.add_argument("--tag", default="dev")
    parser.add_argument("--thin", action="store_true", help="leave out layers the node has already")
    parser.add_argument(
        "--builder",
        choices=BUILDERS,
        default=os.environ.get("SHAREMESH_IMAGE_BUILDER") or BUILDERS[0],
        help="what makes the images (default: %(default)s)",
    )
    return parser


def main() -> int:
    """Build what is asked for; print each image's name, file and digest."""
    parser = options()
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # scratch folders go in any case
    wanted = args.image or list(PRODUCTS)
    if unknown := set(wanted) - IMAGES.keys():
        parser.error(f"no image is called {min(unknown)!r}; there are: {', '.join(IMAGES)}")
    docker = args.builder == "docker"
    if docker:
        docker_builder.check_docker()
    else:
        check_machine()
        LAYERS.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    for image in wanted:
        name = f"{args.registry}/{image}:{args.tag}"
        out = args.out / f"{image}-{args.tag}.tar"
        if docker:
            found = docker_builder.build(image, out, name)
        else:
            found = build(image, out, name, thin=args.thin)
        print(f"{name}  {out}  {out.stat().st_size / 1e6:.1f} MB  sha256:{found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
