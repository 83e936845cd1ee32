"""The simulation fills ports and replaces no service; nothing in it is real time or chance."""

import ast
import re
from pathlib import Path

import pytest

from sharemesh.serve import hosted_roles
from tests.simulation.broker_faults import BROKER_FAULTS
from tests.simulation.engines import embedded, kafka
from tests.simulation.engines.engine import MESH_FAULTS
from tests.simulation.faults import FAULTS
from tests.simulation.totals import RARE, RARE_ON_KAFKA
from tests.simulation.workloads.names import ON_KAFKA_ONLY, WORKLOADS

HERE = Path(__file__).parent
MAY_BE_EXTENDED = ("sharemesh.backends.local.",)
FORBIDDEN = {"time", "threading", "concurrent", "secrets", "uuid", "socket"}
COMMAND_LINE = {"__main__.py"}


def modules() -> list[Path]:
    return sorted(path for path in HERE.rglob("*.py") if not path.name.startswith("test_"))


def imported(tree: ast.Module) -> dict[str, str]:
    """Return which module each imported name comes from."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names.update({each.asname or each.name: f"{node.module}." for each in node.names})
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(HERE).as_posix())
def test_a_simulated_class_extends_fillings_of_ports_only(path):
    tree = ast.parse(path.read_text())
    origins = imported(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for base in node.bases:
            origin = origins.get(base.id, "") if isinstance(base, ast.Name) else ""
            if origin.startswith("sharemesh"):
                assert origin.startswith(MAY_BE_EXTENDED), f"{node.name} replaces {origin}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(HERE).as_posix())
def test_a_run_uses_no_real_time_no_threads_and_no_unseeded_chance(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and path.name not in COMMAND_LINE:
            assert not {each.name.split(".")[0] for each in node.names} & FORBIDDEN
        if isinstance(node, ast.ImportFrom) and path.name not in COMMAND_LINE:
            package = str(node.module).split(".")[0]
            assert package not in FORBIDDEN, f"{path.name}:{node.lineno} from {package}"
            names = {each.name for each in node.names}
            assert package != "random" or names == {"Random"}, f"{path.name}:{node.lineno} {names}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = node.func.value, node.func.attr
            if isinstance(owner, ast.Name) and owner.id == "random":
                assert name == "Random", f"{path.name}:{node.lineno} random.{name}"
                assert node.args, f"{path.name}:{node.lineno}: an unseeded Random"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            is_seeded = node.func.id != "Random" or node.args
            assert is_seeded, f"{path.name}:{node.lineno}: an unseeded Random"


def test_simulated_processes_host_the_roles_that_production_hosts():
    """Both build, offer, start, drain and close through ``HostedRoles``; neither names a role."""
    hosts = {
        "simulated": HERE / "world.py",
        "production": Path(hosted_roles.__file__).parent / "role_process.py",
    }
    for path in hosts.values():
        origins = imported(ast.parse(path.read_text()))
        assert origins["HostedRoles"] == "sharemesh.serve.hosted_roles."
        assert not any(origin.startswith("sharemesh.serve.roles.") for origin in origins.values())


def test_faults_of_a_volume_have_their_like_among_brokers():
    assert kafka.LIKE.keys() == {*embedded.OWN_FAULTS}
    assert {each for likes in kafka.LIKE.values() for each in likes} <= BROKER_FAULTS.keys()
    assert {*kafka.OWN_FAULTS} <= BROKER_FAULTS.keys()
    assert {*MESH_FAULTS, *embedded.OWN_FAULTS} == FAULTS.keys()


def test_the_gate_runs_every_special_workload_and_its_rare_states_are_named():
    gate = (HERE.parents[1] / ".ci" / "run").read_text()
    special = WORKLOADS.keys() - {"mixed", "short"}
    [on_files] = re.findall(r"step make simulate WORKLOAD=\"(.+)\"", gate)
    assert set(on_files.split()) == special - {*ON_KAFKA_ONLY}
    assert set(on_files.split()) <= RARE.keys()
    [on_kafka] = re.findall(r"step make simulate ENGINE=kafka WORKLOAD=\"(.+)\"", gate)
    assert set(on_kafka.split()) <= special
    assert {*ON_KAFKA_ONLY} <= set(on_kafka.split())
    assert set(on_kafka.split()) <= RARE_ON_KAFKA.keys()
