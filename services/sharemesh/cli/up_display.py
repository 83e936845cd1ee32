"""How ``sharemesh up`` shows its processes: a table on a terminal, lines, or JSON lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sharemesh.cli.formatting import json_line
from sharemesh.domain.printable import escaped
from sharemesh.serve.supervise.child_process import ProcessState, ProcessStatus
from sharemesh.serve.supervise.local_cluster import LocalCluster

_STYLES = {
    ProcessState.READY: "green",
    ProcessState.STARTING: "yellow",
    ProcessState.RESTARTING: "bold yellow",
    ProcessState.FAILED: "bold red",
}
_REFRESH_PER_SECOND = 4


class PlainDisplay:
    """One line for each change."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)

    @contextmanager
    def shown(self, cluster: LocalCluster) -> Iterator[None]:
        """Show the cluster for as long as the context lasts."""
        self.say(f"data directory {cluster.directory}")
        self.say(f"logs {cluster.logs}")
        yield

    def changed(self, status: ProcessStatus) -> None:
        """Show a change of one process."""
        parts = [status.name, str(status.state)]
        if status.pid:
            parts.append(f"pid={status.pid}")
        if status.state is ProcessState.READY:
            parts.append(f"address={status.address}")
        if status.state in {ProcessState.RESTARTING, ProcessState.FAILED}:
            parts.append(f"exit_code={status.exit_code}")
            parts.append(f"restarts={status.restarts}")
        if status.message:
            parts.append(status.message)
        self.say(" ".join(parts))

    def ready(self, cluster: LocalCluster) -> None:
        """Say where clients find the cluster."""
        if cluster.kafka_bootstrap:
            self.say(f"kafka listener bootstrap={','.join(cluster.kafka_bootstrap)}")
        self.say(f"ready bootstrap={','.join(cluster.bootstrap)}")

    def say(self, text: str) -> None:
        """Print one line at once."""
        self._console.print(Text(escaped(text)))
        self._console.file.flush()


class JsonDisplay(PlainDisplay):
    """One JSON object for each change, with its kind as ``event``: process, ready, message."""

    def changed(self, status: ProcessStatus) -> None:
        """Show a change of one process."""
        self._show("process", **(asdict(status) | {"state": str(status.state)}))

    def ready(self, cluster: LocalCluster) -> None:
        """Say where clients find the cluster."""
        kafka = list(cluster.kafka_bootstrap)
        self._show(
            "ready",
            bootstrap=list(cluster.bootstrap),
            **({"kafka_bootstrap": kafka} if kafka else {}),
            data_directory=cluster.directory,
            logs=cluster.logs,
        )

    def say(self, text: str) -> None:
        """Print words for people as a message."""
        self._show("message", text=text)

    def _show(self, event: str, **fields: object) -> None:
        super().say(json_line({"event": event, **fields}))


class TableDisplay(PlainDisplay):
    """A table that is drawn again after each change."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console)
        self._cluster: LocalCluster | None = None
        self._live: Live | None = None
        self._line = "starting"

    @contextmanager
    def shown(self, cluster: LocalCluster) -> Iterator[None]:
        """Show the cluster for as long as the context lasts."""
        self._cluster = cluster
        with Live(
            get_renderable=self._drawn,
            console=self._console,
            refresh_per_second=_REFRESH_PER_SECOND,
        ) as live:
            self._live = live
            yield
            live.refresh()

    def changed(self, status: ProcessStatus) -> None:
        """Take note; the table is drawn a few times a second."""
        if status.state is ProcessState.FAILED:
            self._line = f"{status.name} failed: {status.message}"

    def ready(self, cluster: LocalCluster) -> None:
        """Say where clients find the cluster."""
        kafka = f" (Kafka's at {cluster.kafka_bootstrap[0]})" if cluster.kafka_bootstrap else ""
        self._line = (
            f"ready; clients start at {cluster.bootstrap[0]}{kafka}; logs in {cluster.logs}; "
            "Ctrl-C stops"
        )

    def say(self, text: str) -> None:
        """Set the line below the table."""
        self._line = text

    def _drawn(self) -> Group:
        assert self._cluster is not None
        table = Table(title=f"Sharemesh, data in {self._cluster.directory}", title_justify="left")
        for column in ("process", "state", "pid", "address", "restarts"):
            table.add_column(column, no_wrap=True)
        messages = []
        for status in self._cluster.processes:
            table.add_row(
                status.name,
                Text(str(status.state), style=_STYLES.get(status.state, "")),
                str(status.pid or "-"),
                status.address or "-",
                str(status.restarts),
            )
            if status.message:
                messages.append(Text(escaped(f"{status.name}: {status.message}"), style="yellow"))
        return Group(table, *messages, Text(escaped(self._line)))
