"""`python -m deploy.charts`: lints and packages the charts into build/charts."""

import argparse
import sys
from pathlib import Path

import helm_python as helm

ROOT = Path(__file__).parents[1]
CHARTS = ("sharemesh-crds", "sharemesh", "sharemesh-cluster")
WARNING = 2
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


def main() -> int:
    """Lint all, then package all."""
    parser = argparse.ArgumentParser(prog="python -m deploy.charts", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "charts")
    parser.add_argument("--version", default=None, help="in place of what stands in Chart.yaml")
    args = parser.parse_args()
    findings = [finding for chart in CHARTS for finding in lint(chart)]
    for finding in findings:
        print(finding, file=sys.stderr)
    if findings:
        return 1
    args.out.mkdir(parents=True, exist_ok=True)
    for chart in CHARTS:
        archive = helm.package(
            ROOT / "charts" / chart,
            destination=args.out,
            version=args.version,
            app_version=args.version,
        )
        print(archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
