"""Pages walked command by command as a new user, each on a running cluster of its own."""

import contextlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.local_up import local_up
from tests.docs.pages import Step, fits, pages, steps
from tests.kafka.real_broker import real_brokers

ROOT = Path(__file__).parents[2]
PAGES = pages(ROOT)
TUTORIALS = ("README.md", "docs/tutorial/first-queue.md")
"""They start a cluster of their own."""
GUIDES = tuple(
    f"docs/guides/{name}.md"
    for name in (
        "consuming",
        "poison-records",
        "running-handlers",
        "outages",
        "fencing",
        "from-kafka",
        "from-celery",
        "quotas",
    )
)
"""Their readers have a cluster."""
ON_KAFKA = "docs/guides/kafka.md"
"""Its reader has a broker with a topic, and starts a cluster on it."""
START = "sharemesh up"
ADDRESS = "127.0.0.1:9400"
"""What the pages say that a process of the cluster has."""
BROKER = "127.0.0.1:9092"
"""What that page says that the broker has."""
STEP_TIMEOUT_S = 60


class Reader:
    """A new user: a directory with a virtual environment, and what `sharemesh up` started there."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack, broker: str = "") -> None:
        self._directory = directory
        self._stack = stack
        self._address = ""
        self._broker = broker
        activate = directory / ".venv" / "bin" / "activate"
        activate.parent.mkdir(parents=True)
        activate.write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')

    def starts_a_cluster(self, *options: str) -> None:
        """Start one as `sharemesh up` does, on free ports."""
        up = self._stack.enter_context(local_up(self._directory / "sharemesh-data", *options))
        self._address = up.bootstrap.partition(",")[0]

    def takes(self, step: Step) -> str:
        """Take a step; return what it printed, on stderr too, and fail if it failed."""
        code = step.code.replace(ADDRESS, self._address or ADDRESS)
        code = code.replace(BROKER, self._broker or BROKER)
        if step.title:
            (self._directory / step.title).write_text(code)
            return ""
        *before, last = code.splitlines()
        if last.startswith(f"{START} ") or last == START:
            self._types("bash", "\n".join([*before, "command -v sharemesh"]))
            self.starts_a_cluster(*shlex.split(last.removeprefix(START)))
            return ""
        return self._types("python" if step.language == "python" else "bash", code)

    def _types(self, program: str, code: str) -> str:
        known = {"PATH": os.environ["PATH"], "HOME": str(self._directory), "LANG": "C.UTF-8"}
        known["PYTHONUNBUFFERED"] = "1"  # in the order in which a terminal shows it
        how = ["bash", "-euo", "pipefail", "-c", f". .venv/bin/activate\n{code}"]
        done = subprocess.run(
            [sys.executable, "-c", code] if program == "python" else how,
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_TIMEOUT_S,
            check=False,
            env=known,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}"
        return done.stdout


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """Return somebody who has a running cluster."""
    with contextlib.ExitStack() as stack:
        reader = Reader(tmp_path_factory.mktemp("user"), stack)
        reader.starts_a_cluster()
        yield reader


def walk(reader: Reader, page: str) -> None:
    """Take each step of a page, and compare what it prints."""
    taken = [step for step in steps((ROOT / page).read_text()) if not step.skipped]
    assert any(step.output for step in taken)
    for step in taken:
        said = reader.takes(step)
        if step.output:
            assert fits(step.output, said), f"{page}:{step.line}\n{step.code}\n{said}"


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS)
def test_a_new_user_gets_what_the_page_shows(page, tmp_path):
    with contextlib.ExitStack() as stack:
        walk(Reader(tmp_path, stack), page)


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDES)
def test_a_user_gets_what_a_guide_shows(page, user):
    walk(user, page)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(400)
def test_who_has_a_broker_gets_what_the_page_shows(tmp_path):
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(real_brokers(tmp_path / "kafka")).bootstrap
        admin = AdminClient({"bootstrap.servers": broker})
        admin.create_topics([NewTopic("payments", 4)])["payments"].result(timeout=30)
        producer = Producer({"bootstrap.servers": broker})
        for value in (b"ten", b"twenty"):
            producer.produce("payments", value)
        assert producer.flush(30) == 0
        walk(Reader(tmp_path, stack, broker), ON_KAFKA)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_of_a_page_can_be_parsed(page):
    for step in steps(page.read_text(encoding="utf-8")):
        if step.language == "python":
            compile(step.code, f"{page}:{step.line}", "exec")
        else:
            done = subprocess.run(
                ["bash", "-n"], input=step.code, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{page}:{step.line}: {done.stderr}"


def test_a_step_is_skipped_only_with_a_reason_of_the_list():
    reasons = {step.skipped for page in TUTORIALS for step in steps((ROOT / page).read_text())}
    reasons |= {
        step.skipped for step in steps((ROOT / "docs/tutorial/on-kubernetes.md").read_text())
    }
    assert reasons == {"", "it takes a minute or two", "it needs Kubernetes"}


@pytest.mark.parametrize(
    ("shown", "real", "fit"),
    [
        ("a b\n", "a   b\n", True),
        ("a … c\n", "a 17 c\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n", "a\nb\n", False),
        ("a 1\n", "a 2\n", False),
        ("a … c\n", "a\nc\n", False),
    ],
)
def test_an_output_fits_what_is_shown(shown, real, fit):
    assert fits(shown, real) is fit
