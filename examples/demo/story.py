"""The demo as a story in five chapters; each thing it claims at the end is a check."""

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.demo import flights
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from tests.history.checker import Report
from tests.history.journal import Entry, now_ms
from tests.kafka.jars import KafkaMissingError
from tests.mesh.kafka_console import KafkaConsole, console_program
from tests.mesh.loaded_mesh import Load, LoadedMesh
from tests.mesh.outcome import DurableState, first_after, held_at

RATE_PER_S = 4_000
PARTITIONS = 3  # fewer than consumers: every partition is shared by two of them
FINISH_TIMEOUT_S = 90
SPARK_TIMEOUT_S = 300
HOLD_TIMEOUT_S = 20
CONSOLE = "erik"
CONSOLE_RECORDS = 2_000
FRESH_MS = 150  # a delivery so new that its acknowledgement cannot have been sent
CONSUMERS = {
    "anna": "steady, rejects what is malformed",
    "bert": "greedy: holds what it gets for a while; will be killed",
    "carl": "slow: renews each lock once",
    "dora": "steady, rejects what is malformed",
}
BEHAVIOUR = {"anna": "steady", "bert": "greedy", "carl": "slow", "dora": "steady"}


@dataclass(slots=True)
class Kill:
    """One process that was killed: when, and what was to go on afterwards."""

    what: str
    time_ms: float
    until: str
    partitions: set[str] | None = None
    event: str = "delivered"
    held: int = 0
    recovery_ms: float | None = None


Act = Callable[[], Awaitable[Kill]]


@dataclass(slots=True)
class Check:
    """One claim."""

    claim: str
    good: bool
    seen: str


@dataclass(slots=True)
class Outcome:
    """What is known when all is over."""

    report: Report
    state: DurableState
    figures: dict[str, Any] = field(default_factory=dict)


def load_of(settings: ServeSettings) -> Load:
    """Return the demo's load on a mesh with these settings."""
    up = UpSettings(base_port=0, kafka_listener="127.0.0.1:0")
    return Load(partitions=PARTITIONS, fields=flights.field_count(), settings=settings, up=up)


def available_again(figures: Mapping[str, Any]) -> int | None:
    """Return how many records Spark's report says became available again; None without one."""
    lines = figures.get("spark", {}).get("report", {}).get("by_cause")
    if lines is None:
        return None
    return sum(line["records"] for line in lines if line["became"] == "available")


class Story:
    """Runs the chapters in order; without a ``scene`` the mesh keeps its logs in files."""

    looks_back = "Spark reads the share state log of this run"
    looked_back = "Spark's generation folds to what the log folds to"

    def __init__(
        self,
        console: Console,
        work: Path,
        *,
        seed: int,
        records: int,
        scene: LoadedMesh | None = None,
    ) -> None:
        self._console = console
        self._work = work
        self._rng = random.Random(seed)
        self._records = records
        self._rows = list(flights.rows(records, self._rng))
        self._kills: list[Kill] = []
        settings = ServeSettings(data_directory=work / "data", cluster_id="demo")
        self._scene = scene or LoadedMesh(work, load_of(settings))
        self._kafka_console: KafkaConsole | None = None

    async def tell(self) -> bool:
        """Return whether every check held."""
        self._chapter("1", "a mesh of eight processes and an etcd starts")
        self._kafka_console = await asyncio.to_thread(self._console_of_kafka)
        async with self._scene as scene:
            self._show_processes()
            await scene.prepare()
            self._chapter(
                "2",
                f"{self._records:,} flights are produced, four consumers share "
                f"{PARTITIONS} partitions",
            )
            self._show_consumers()
            finished = await self._under_load()
            await scene.stop_workers()
            finished = await self._consume_by_kafka() and finished
            self._chapter("3", "everything stops; the logs are on disk")
        outcome = self._outcome()
        self._chapter("4", self.looks_back)
        agrees = await self._look_back(outcome)
        self._chapter("5", "what was promised, and what was seen")
        return self._conclude(outcome, finished=finished, agrees=agrees)

    def _chapter(self, number: str, title: str) -> None:
        self._console.rule(f"[bold]{number}. {title}", align="left")

    def _show_processes(self) -> None:
        table = Table("process", "pid", "address")
        for process in self._scene.cluster.processes:
            table.add_row(process.name, str(process.pid), process.address)
        self._console.print(table)

    def _show_consumers(self) -> None:
        for name, manner in CONSUMERS.items():
            pid = self._scene.start_worker(name, BEHAVIOUR[name])
            self._console.print(f"  consumer [bold]{name}[/] (pid {pid}): {manner}")

    def _console_of_kafka(self) -> KafkaConsole | None:
        """Return Kafka's console share consumer, if it can be had here."""
        try:
            program = console_program()
        except KafkaMissingError as error:
            self._console.print(f"  without Kafka's console share consumer: {error}")
            return None
        log = self._work / "logs" / f"{CONSOLE}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        return KafkaConsole(program, self._scene.journals / f"{CONSOLE}.jsonl", log)

    @property
    def _part(self) -> int:
        """How many records, the last ones, are for Kafka's console consumer."""
        return 0 if self._kafka_console is None else min(CONSOLE_RECORDS, self._records // 10)

    async def _consume_by_kafka(self) -> bool:
        """Produce the last part for Kafka's console consumer alone; return whether it is done."""
        console, scene = self._kafka_console, self._scene
        if console is None:
            return True
        self._console.print(
            f"  consumer [bold]{CONSOLE}[/]: Kafka's console share consumer, as it is, for the "
            f"last {self._part:,} flights; accepts all"
        )
        rows = ((row.key, row.value) for row in self._rows[-self._part :])
        await scene.produce(rows, per_second=RATE_PER_S)
        code = await console.run(
            ",".join(scene.cluster.kafka_bootstrap),
            scene.load.topic,
            scene.load.group,
            limit=self._part,
            epochs=scene.leader_epochs,
        )
        if code:
            self._console.print(f"  {CONSOLE} ended with {code}", style="red")
        return await scene.finished(FINISH_TIMEOUT_S)

    async def _under_load(self) -> bool:
        shared = self._records - self._part
        seconds = shared / RATE_PER_S
        acts = self._acts()
        shares = [number / (len(acts) + 1) for number in range(1, len(acts) + 1)]
        times = [seconds * (share + self._rng.uniform(-0.06, 0.06)) for share in shares]
        with Progress(
            TextColumn("{task.description:<22}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        ) as progress:
            produced = progress.add_task("produced", total=shared)
            done = progress.add_task("acknowledged", total=shared)
            producing = asyncio.ensure_future(
                self._scene.produce(
                    ((row.key, row.value) for row in self._rows[:shared]),
                    per_second=RATE_PER_S,
                    on_progress=lambda count: progress.update(produced, completed=count),
                )
            )
            watching = asyncio.ensure_future(
                self._watch(lambda count: progress.update(done, completed=count))
            )
            try:
                await self._kill_in_turn(times, acts)
                await producing
                finished = await self._scene.finished(FINISH_TIMEOUT_S)
            finally:
                for task in (producing, watching):
                    task.cancel()
                await asyncio.gather(producing, watching, return_exceptions=True)
            if finished:
                progress.update(done, completed=shared)
        return finished

    async def _watch(self, show: Callable[[int], None]) -> None:
        while True:
            lag = await self._scene.lag()
            if lag is not None:
                show(max(self._scene.produced - lag, 0))
            await asyncio.sleep(0.5)

    def _acts(self) -> list[Act]:
        """Return who is killed, in order."""
        return [self._kill_consumer, self._kill_leader, self._kill_share_coordinator]

    async def _kill_in_turn(self, times: list[float], acts: list[Act]) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        for at, act in zip(times, acts, strict=True):
            await asyncio.sleep(max(0.0, started + at - loop.time()))
            kill = await act()
            self._kills.append(kill)
            self._console.print(f"  [red]kill -9[/] {kill.what}")

    async def _kill_consumer(self) -> Kill:
        """Kill bert at a moment when he holds records."""
        scene = self._scene
        deadline = asyncio.get_running_loop().time() + HOLD_TIMEOUT_S
        while asyncio.get_running_loop().time() < deadline:
            newest = [e for e in scene.entries() if e.who == "bert"][-1:]
            fresh = newest and now_ms() - newest[0].time_ms < FRESH_MS
            if fresh and newest[0].event == "delivered":
                break
            await asyncio.sleep(0.02)
        time_ms = scene.kill_worker("bert")
        held = held_at(scene.entries(), "bert", time_ms)
        count = sum(map(len, held.values()))
        return Kill(
            f"consumer bert, who held {count} records",
            time_ms,
            "his records went to others",
            set(held),
            held=count,
        )

    async def _kill_leader(self) -> Kill:
        node_id, index = await self._scene.leader_of(self._rng.randrange(PARTITIONS))
        partitions = await self._scene.partitions_led_by(node_id)
        time_ms = self._scene.kill_role("share-leader", index)
        return Kill(
            f"share-partition leader {node_id}, which led {len(partitions)} partitions",
            time_ms,
            "its partitions delivered again",
            partitions,
        )

    async def _kill_share_coordinator(self) -> Kill:
        index = self._rng.randrange(2)
        time_ms = self._scene.kill_role("share-coordinator", index)
        return Kill(
            f"share coordinator share-coordinator-{index}",
            time_ms,
            "acknowledgements were confirmed again",
            event="acknowledged",
        )

    def _outcome(self) -> Outcome:
        entries = self._scene.entries()
        state = self._scene.state()
        report = self._scene.verdict(state)
        for kill in self._kills:
            kill.recovery_ms = self._recovery(entries, kill)
        return Outcome(report, state)

    def _recovery(self, entries: list[Entry], kill: Kill) -> float | None:
        if kill.held:
            lost = held_at(entries, "bert", kill.time_ms)
            for entry in entries:
                if entry.time_ms <= kill.time_ms or entry.event != "delivered":
                    continue
                mine = lost.get(entry.fields["p"], set())
                if any(mine & set(range(a, b + 1)) for a, b, _ in entry.fields["r"]):
                    return entry.time_ms - kill.time_ms
            return None
        if kill.event == "delivered":
            before = {
                e.fields["p"]: e.fields["le"]
                for e in entries
                if e.event == "delivered" and e.time_ms <= kill.time_ms
            }
            newer = [
                e
                for e in entries
                if e.event == "delivered" and e.fields["le"] > before.get(e.fields["p"], -1)
            ]
            return first_after(newer, kill.time_ms, "delivered", kill.partitions)
        confirmed = [e for e in entries if e.event != "acknowledged" or not e.fields["error"]]
        return first_after(confirmed, kill.time_ms, "acknowledged")

    async def _look_back(self, outcome: Outcome) -> bool:
        """Compact the log with Spark; return whether its generation is what the log folds to."""
        figures, said = self._work / "spark.json", self._work / "spark.log"
        command = [sys.executable, "-m", "sharemesh_spark", "run", str(self._scene.data)]
        with said.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, "--json", str(figures), stderr=log
            )
        try:
            async with asyncio.timeout(SPARK_TIMEOUT_S):
                code = await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            self._console.print(
                f"Spark was stopped after {SPARK_TIMEOUT_S} s; see {said}", style="red"
            )
            return False
        if code == 0:
            outcome.figures["spark"] = json.loads(figures.read_text())
        else:
            self._console.print(f"Spark ended with {code}; see {said}", style="red")
        return code == 0

    def _conclude(self, outcome: Outcome, *, finished: bool, agrees: bool) -> bool:
        report = outcome.report
        table = Table("after", "until", "milliseconds", title="time from each kill")
        for kill in self._kills:
            shown = "never" if kill.recovery_ms is None else f"{kill.recovery_ms:,.0f}"
            table.add_row(kill.what, kill.until, shown)
        self._console.print(table)
        self._console.print(self._redeliveries(outcome))
        checks = self._checks(outcome, finished=finished, agrees=agrees)
        table = Table("promise", "held", "seen", title="checks")
        for check in checks:
            table.add_row(check.claim, "[green]yes" if check.good else "[red]NO", check.seen)
        self._console.print(table)
        for violation in report.violations[:20]:
            self._console.print(f"  {violation}", style="red", highlight=False)
        self._write(outcome, checks)
        return all(check.good for check in checks)

    def _redeliveries(self, outcome: Outcome) -> Table:
        """Tell what consumers saw twice, beside what Spark found to be available again."""
        reasons = outcome.report.redelivery_reasons or Counter({"none": 0})
        seen = sum(reasons.values())
        table = Table(
            "why a record was delivered again",
            Column("times", justify="right"),
            title="redeliveries, as the consumers saw them",
        )
        for reason, count in sorted(reasons.items()):
            table.add_row(reason, f"{count:,}")
        again = available_again(outcome.figures)
        if again is not None:
            table.caption = (
                f"Spark's table has {again:,} records that became available again, the consumers "
                f"saw {seen:,} deliveries that were not the first. Records that were sent ahead "
                "to a consumer and given back before it saw them are in Spark's number only; a "
                "record whose consumer or leader was killed before a change was written is in the "
                "consumers' number only."
            )
        return table

    def _checks(self, outcome: Outcome, *, finished: bool, agrees: bool) -> list[Check]:
        report, planted = outcome.report, flights.MALFORMED_ROWS
        archived = len(outcome.state.archived)
        acknowledged = len(outcome.state.acknowledged - outcome.state.archived)
        taken = self._taken_by_kafka(outcome)
        planted -= taken
        explained = sum(report.redelivery_reasons.values())
        held = next((kill.held for kill in self._kills if kill.held), 0)
        return [
            Check("every record confirmed", report.produced == self._records,
                  f"{report.produced:,} of {self._records:,}"),
            Check("every record acknowledged or archived, none lost, none stuck",
                  finished and not report.violations, f"{len(report.violations)} violations"),
            Check("malformed rows archived, nothing else", archived == planted,
                  f"{archived} of {planted}; {taken} more were accepted by {CONSOLE}"),
            Check("all others acknowledged, on disk", acknowledged == self._records - planted,
                  f"{acknowledged:,}; {report.accepted:,} of them seen confirmed"),
            Check("the killed consumer held records", held > 0, f"{held}"),
            Check("every redelivery has a reason", explained == report.redelivered,
                  f"{report.redelivered:,} redeliveries"),
            Check("everything went on after each kill",
                  all(kill.recovery_ms is not None for kill in self._kills), ""),
            Check(self.looked_back, agrees, ""),
            *self._checks_of_kafka(outcome),
        ]  # fmt: skip

    def _taken_by_kafka(self, outcome: Outcome) -> int:
        """Return how many malformed rows Kafka's console consumer accepted: it rejects nothing."""
        read = {} if self._kafka_console is None else self._kafka_console.records
        fields = flights.field_count()
        malformed = {where for where in read if flights.is_malformed(read[where], fields)}
        return len(malformed & (outcome.state.acknowledged - outcome.state.archived))

    def _checks_of_kafka(self, outcome: Outcome) -> list[Check]:
        """Return what is claimed of the part of Kafka's console consumer."""
        if self._kafka_console is None:
            return []
        read = self._kafka_console.records
        sent = Counter(row.value for row in self._rows)
        finished = outcome.state.acknowledged | outcome.state.archived
        good = (
            len(read) == self._part and read.keys() <= finished and Counter(read.values()) <= sent
        )
        claim = "what Kafka's console share consumer printed is ours, and finished"
        return [Check(claim, good, f"{len(read):,} records")]

    def _write(self, outcome: Outcome, checks: list[Check]) -> None:
        path = self._work / "outcome.json"
        report = outcome.report
        path.write_text(
            json.dumps(
                {
                    "checks": {check.claim: check.good for check in checks},
                    "kills": {kill.what: kill.recovery_ms for kill in self._kills},
                    "produced": report.produced,
                    "accepted": report.accepted,
                    "rejected": report.rejected,
                    "redelivered": report.redelivered,
                    "reasons": dict(report.redelivery_reasons),
                    "refused_acknowledgements": report.refused_acknowledgements,
                    "violations": report.violations[:100],
                    **outcome.figures,
                },
                indent=1,
            )
        )
        table = Table("written", "path", title="to look at")
        table.add_row("figures of this run", str(path))
        table.add_row("what each process saw", str(self._scene.journals))
        for what, where in self._places():
            table.add_row(what, str(where))
        self._console.print(table)

    def _places(self) -> list[tuple[str, Path]]:
        return [
            ("data directory of the cluster", self._scene.data),
            ("generations by Spark", self._scene.data / "generations"),
        ]
