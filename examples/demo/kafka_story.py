"""The demo on a real Apache Kafka that it starts: its producer, its topics, and its kill."""

import asyncio
from pathlib import Path

from examples.demo.story import Act, Kill, Outcome, Story, load_of
from rich.console import Console
from rich.table import Column, Table

from sharemesh.ports.shard_log import CorruptLogError
from sharemesh.serve.settings.settings import ServeSettings
from tests.history.journal import Entry, now_ms
from tests.kafka.real_broker import RealBrokers, real_brokers
from tests.mesh.kafka_mesh import KafkaMesh

ANSWERS_MS = 100  # what a broker had written may still be confirmed after its end
BROKER = "the only Kafka broker, which was started again at once"


def told_on_kafka(console: Console, work: Path, *, seed: int, records: int) -> bool:
    """Start one broker, tell the story on it; return whether every check held.

    Raises:
        KafkaMissingError: No Java, or the jars cannot be fetched.
        StartError: The mesh did not start.
    """
    console.print("an Apache Kafka broker starts", highlight=False)
    with real_brokers(work / "kafka") as brokers:
        settings = ServeSettings(
            data_directory=work / "data",
            cluster_id="demo",
            storage="kafka",
            kafka_bootstrap_servers=tuple(brokers.bootstrap.split(",")),
            kafka_single_replica=True,
        )
        scene = KafkaMesh(work, load_of(settings), producers=brokers.bootstrap, replicas=1)
        story = KafkaStory(console, work, brokers, scene, seed=seed, records=records)
        return asyncio.run(story.tell())


class KafkaStory(Story):
    """The story with a broker in it; instead of Spark the state topic is read at the end."""

    looks_back = "the state topic is read from its first batch"
    looked_back = "each unit of the state topic lies where its writer expected it, none is missing"

    def __init__(
        self,
        console: Console,
        work: Path,
        brokers: RealBrokers,
        scene: KafkaMesh,
        *,
        seed: int,
        records: int,
    ) -> None:
        super().__init__(console, work, seed=seed, records=records, scene=scene)
        self._brokers = brokers
        self._topics = scene

    def _acts(self) -> list[Act]:
        return [*super()._acts(), self._kill_broker]

    async def _kill_broker(self) -> Kill:
        time_ms = now_ms()
        self._brokers.kill(1)
        self._brokers.start(1)
        await self._brokers.started(1)
        return Kill(BROKER, time_ms, "acknowledgements were confirmed again", event="acknowledged")

    def _recovery(self, entries: list[Entry], kill: Kill) -> float | None:
        if kill.what != BROKER:
            return super()._recovery(entries, kill)
        for entry in entries:
            confirmed = entry.event == "acknowledged" and not entry.fields["error"]
            if confirmed and entry.time_ms > kill.time_ms + ANSWERS_MS:
                return entry.time_ms - kill.time_ms
        return None

    async def _look_back(self, outcome: Outcome) -> bool:
        try:
            shards = await asyncio.to_thread(self._topics.shards)
        except CorruptLogError as error:
            self._console.print(str(error), style="red")
            return False
        right = {"justify": "right"}
        heads = [Column(name, **right) for name in ("units", "states", "fences", "void batches")]
        table = Table("shard", *heads, title="the state topic")
        for number, each in enumerate(shards):
            counts = (each.units, len(each.records), each.fences, each.void)
            table.add_row(str(number), *(f"{count:,}" for count in counts))
        self._console.print(table)
        outcome.figures["state_topic_units"] = sum(each.units for each in shards)
        return True

    def _places(self) -> list[tuple[str, Path]]:
        return [("what each process of the mesh said", self._scene.cluster.logs)]
