"""The way to kind, as far as it goes without Docker: its scripts, its values, its messages."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from images import docker_builder
from images.__main__ import OF_TESTS, PRODUCTS
from tests.charts import rendering

ROOT = Path(__file__).parents[2]
KIND = ROOT / "deploy" / "kind"
SCRIPTS = sorted((ROOT / "deploy").glob("*/*.sh"))
TOOLS = ("docker", "kind", "kubectl", "helm")
# Writes down how it was called; `docker info` fails where the test says so, and no cluster is up.
STAND_IN = """#!/bin/bash
echo "${0##*/} $*" >> "$CALLS"
[[ "${0##*/} $*" != "docker info" || -z ${NO_DAEMON-} ]]
"""


def values(name: str) -> rendering.Document:
    found: rendering.Document = yaml.safe_load((KIND / name).read_text())
    return found


@pytest.fixture
def machine(tmp_path):
    """A machine with nothing on its path but basics and the stand-ins that a test names."""
    for name in ("bash", "sh", "dirname", "grep", "mkdir", "env"):
        (tmp_path / name).symlink_to(shutil.which(name))

    def run(script: str, *tools: str, **environment: str) -> tuple[int, str, list[str]]:
        for tool in tools:
            (tmp_path / tool).write_text(STAND_IN)
            (tmp_path / tool).chmod(0o755)
        calls = tmp_path / "calls"
        calls.write_text("")
        done = subprocess.run(
            [str(KIND / script)],
            env={"PATH": str(tmp_path), "CALLS": str(calls), "PYTHON": "python", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        return done.returncode, done.stderr, calls.read_text().splitlines()

    return run


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_script_is_one_that_bash_reads(script):
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert os.access(script, os.X_OK) or script.name == "env.sh"


@pytest.mark.parametrize("missing", TOOLS)
def test_a_missing_tool_is_named_in_one_sentence_with_what_to_do(machine, missing):
    code, said, calls = machine("e2e.sh", *(tool for tool in TOOLS if tool != missing))
    assert code == 1
    assert said.startswith(f"kind: {missing} is missing: install it (https://")
    assert "make e2e" in said
    assert said.count("\n") == 1
    assert calls == []


def test_a_docker_that_does_not_answer_is_said_at_once(machine):
    code, said, calls = machine("e2e.sh", *TOOLS, NO_DAEMON="1")
    assert code == 1
    assert said.startswith("kind: Docker does not answer")
    assert said.count("\n") == 1
    assert calls == ["docker info"]


@pytest.mark.parametrize("suite", ["passes", "fails"])
def test_the_suite_gets_a_cluster_that_goes_when_it_ends(machine, tmp_path, suite):
    python = tmp_path / "python"
    code_of_suite = "0" if suite == "passes" else "3"
    words = 'echo "suite $SHAREMESH_E2E_LOAD $KUBECONFIG $*" >> "$CALLS"'
    python.write_text(f"#!/bin/bash\n{words}\nexit {code_of_suite}\n")
    python.chmod(0o755)
    code, _, calls = machine("e2e.sh", *TOOLS, "make")
    assert code == int(code_of_suite)
    steps = [call for call in calls if call != "docker info" and not call.startswith("kind get")]
    kubeconfig = ROOT / "build" / "kind" / "kubeconfig"
    assert steps[0] == "make -s setup"
    assert steps[1].startswith("kind create cluster --name sharemesh --config ")
    assert steps[2] == f"suite {KIND / 'load.sh'} {kubeconfig} -m tests.e2e"
    assert steps[3] == f"kind delete cluster --name sharemesh --kubeconfig {kubeconfig}"
    assert len(steps) == 4


def test_images_are_built_by_docker_and_loaded_one_by_one(machine, tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/bash\necho "$SHAREMESH_IMAGE_BUILDER $*" >> "$CALLS"\n')
    python.chmod(0o755)
    code, _, calls = machine("load.sh", *TOOLS)
    assert code == 0
    assert calls[1] == "docker -m images --tag e2e"
    loaded = [Path(call.split()[3]).name for call in calls[2:]]
    assert sorted(loaded) == sorted(f"{image}-e2e.tar" for image in PRODUCTS)


@pytest.mark.parametrize(
    ("chart", "name"),
    [("sharemesh", "values-operator.yaml"), ("sharemesh-cluster", "values-cluster.yaml")],
)
def test_the_values_render_with_the_images_that_are_loaded(chart, name):
    text = "\n".join(rendering.texts(chart, values(name)).values())
    images = set(re.findall(r"localhost/[\w-]+:[\w.]+", text))
    assert images
    assert images <= {f"localhost/{image}:e2e" for image in PRODUCTS}


def test_the_cluster_stands_on_the_node_and_the_directory_that_the_scripts_make():
    (cluster,) = rendering.of_kind(
        rendering.documents("sharemesh-cluster", values("values-cluster.yaml")), "ShareCluster"
    )
    variables = (KIND / "env.sh").read_text()
    name = re.search(r"^CLUSTER=(\S+)", variables, re.MULTILINE)
    data = re.search(r"^DATA=(\S+)", variables, re.MULTILINE)
    assert name
    assert data
    storage = {"type": "SingleNode", "node": f"{name[1]}-control-plane", "hostPath": data[1]}
    assert cluster["spec"]["storage"] == storage


def test_the_config_of_the_cluster_is_kinds():
    config = yaml.safe_load((KIND / "cluster.yaml").read_text())
    assert (config["kind"], config["apiVersion"]) == ("Cluster", "kind.x-k8s.io/v1alpha4")
    assert [node["role"] for node in config["nodes"]] == ["control-plane"]


def test_docker_builds_what_the_suite_runs_from_a_dockerfile_whose_sources_it_is_sent():
    assert set(docker_builder.DOCKERFILES) == {*PRODUCTS, *OF_TESTS}
    sent = (ROOT / ".dockerignore").read_text().split()
    for name in docker_builder.DOCKERFILES.values():
        text = (ROOT / "images" / name).read_text()
        for words in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
            for source in words.split():
                assert (ROOT / source).exists(), f"images/{name}: {source}"
                assert f"!{source.split('/')[0]}" in sent, f".dockerignore leaves out {source}"


def test_docker_gets_the_etcd_that_the_chart_names():
    tag = yaml.safe_load((ROOT / "charts" / "sharemesh" / "values.yaml").read_text())["etcd"][
        "inCluster"
    ]["image"]["tag"]
    assert f":v{tag}\n" in (ROOT / "images" / "etcd.Dockerfile").read_text()


def test_images_without_an_answering_docker_are_refused_in_one_sentence(tmp_path):
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "images", "--builder", "docker", "--out", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("images: Docker does not answer")
    assert done.stderr.count("\n") == 1
