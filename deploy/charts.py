"""`python -m deploy.charts`: lints and packages the charts into build/charts."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import helm_python as helm

ROOT = Path(__file__).parents[1]
CHARTS = ("sharemesh-crds", "sharemesh", "sharemesh-cluster")
WARNING = 2
LOCAL = "localhost"  # the registry of images that are loaded onto nodes
# What the charts cannot guess: without it they refuse to render, and say so.
LEAST_VALUES: dict[str, dict[str, object]] = {
    "sharemesh-crds": {},
    "sharemesh": {"etcd": {"endpoints": ["http://etcd:2379"]}},
    "sharemesh-cluster": {
        "cluster": {
            "etcd": {"endpoints": ["http://etcd:2379"]},
            "storage": {"type": "Shared", "claimName": "data"},
        }
    },
}


def lint(chart: str) -> list[str]:
    """Return what Helm finds wrong."""
    report = helm.lint(ROOT / "charts" / chart, LEAST_VALUES[chart], kube_version="v1.34.0")
    return [
        f"{chart}: {message['error']}"
        for message in report["messages"]
        if message["severity"] >= WARNING
    ]


def copy_for(registry: str, chart: str, folder: Path) -> Path:
    """Copy a chart, with the images of a registry in place of those that nodes hold."""
    copy = folder / chart
    shutil.copytree(ROOT / "charts" / chart, copy)
    for path in (*copy.glob("values.yaml"), *copy.glob("templates/**/*.tpl")):
        path.write_text(path.read_text().replace(f"{LOCAL}/", f"{registry}/"))
    return copy


def main() -> int:
    """Lint all, then package all."""
    parser = argparse.ArgumentParser(prog="python -m deploy.charts", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "charts")
    parser.add_argument("--version", default=None, help="in place of what stands in Chart.yaml")
    parser.add_argument("--registry", default=LOCAL, help="what stands before names of images")
    args = parser.parse_args()
    findings = [finding for chart in CHARTS for finding in lint(chart)]
    for finding in findings:
        print(finding, file=sys.stderr)
    if findings:
        return 1
    args.out.mkdir(parents=True, exist_ok=True)
    for chart in CHARTS:
        with tempfile.TemporaryDirectory() as scratch:
            archive = helm.package(
                copy_for(args.registry, chart, Path(scratch)),
                destination=args.out,
                version=args.version,
                app_version=args.version,
            )
        print(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
