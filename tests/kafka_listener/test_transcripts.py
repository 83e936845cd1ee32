"""Conversations of real clients with Apache Kafka 4.4, recorded by a proxy and held here again.

Each request goes to the listener as it went to Kafka; ids that a server makes up are put in place
of Kafka's. The answer must say the same: errors, partitions, offsets, acquired ranges.
"""

import contextlib
import gzip
import json
import struct
from dataclasses import fields
from pathlib import Path
from uuid import UUID

import pytest

from sharemesh.kafka.messages import milliseconds
from sharemesh.kafka_listener.served_requests import BY_KEY, ServedRequest
from tests.kafka_listener.asked import batch
from tests.kafka_listener.world import EARLIEST, ListeningMesh

HERE = Path(__file__).parent / "transcripts"
PRODUCE, METADATA, API_VERSIONS, HEARTBEAT, SHARE_FETCH = 0, 3, 18, 76, 78
DURATIONS = {"max_wait", "timeout", "transaction_timeout"}

MADE_BY_THE_SERVER = {"topic_id", "cluster_id", "controller_id", "node_id", "host", "port"}
MADE_BY_THE_SERVER |= {"leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "producer_id"}
DIFFERS = {
    "assignment": "the first answer to a member has it here (KLS-15)",
    "member_epoch": "so epochs differ, too",
    "error_message": "NONE for no error in old answers of Kafka; words elsewhere",
    "acquisition_lock_timeout": "of the group, whose settings the recording does not show",
    "records": "bytes of the records, which the recording does not hold",
}
LEFT_OUT = MADE_BY_THE_SERVER | set(DIFFERS)


def events(name):
    with gzip.open(HERE / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def said(body):
    """Return what an answer says, without what each server says for itself."""
    if isinstance(body, dict):
        return {key: said(each) for key, each in body.items() if key not in LEFT_OUT}
    if isinstance(body, list):
        return sorted((said(each) for each in body), key=_number)  # partitions rotate
    return body


def _number(entry):
    is_partition = isinstance(entry, dict)
    return entry.get("partition_index", entry.get("index", 0)) if is_partition else 0


def plain(value):
    """Return an entity as the recording writes it."""
    if hasattr(value, "__dataclass_fields__"):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if hasattr(value, "total_seconds"):
        return round(value.total_seconds() * 1_000)
    return getattr(value, "name", value)


class Conversation:
    """One recording, held again."""

    def __init__(self, mesh, name, stack):
        self.mesh = mesh
        self.events = events(name)
        self.stack = stack
        self.clients = {}
        self.topic_ids = {}  # Kafka's to ours
        self.epochs = {}
        self.ends = {}  # how much of each partition is there
        self.answered = 0

    async def prepare(self):
        """Create the topics that were there before the recording, and let groups begin at 0."""
        admin = self.mesh.mesh.admin()
        absent = set()
        for event in self.events:
            if event["ev"] == "resp" and event["key"] == METADATA:
                for topic in event["body"]["topics"]:
                    if topic["error_code"] != "none":
                        absent.add(topic["name"])
                    elif topic["name"] not in absent:
                        await self.create(topic)
        groups = {e["body"]["group_id"] for e in self.events if e.get("key") == HEARTBEAT
                  and e["ev"] == "req"}  # fmt: skip
        for group in sorted(groups):
            await admin.alter_group_configs(group, EARLIEST)

    async def create(self, topic):
        """Create a topic that Kafka has by now."""
        if topic["error_code"] == "none" and topic["topic_id"] not in self.topic_ids:
            partitions = len(topic["partitions"])
            await self.mesh.mesh.admin().create_topic(topic["name"], partitions)
            await self.mesh.mesh.leader(topic["name"], partitions - 1)
            mine = self.mesh.view.topic_named(topic["name"]).topic_id
            self.topic_ids[topic["topic_id"]] = UUID(bytes=mine)

    async def hold(self):
        answers = {
            (each["conn"], each["corr"]): each for each in self.events if each["ev"] == "resp"
        }
        for event in self.events:
            if event["ev"] == "open":
                client = await self.stack.enter_async_context(self.mesh.connect())
                self.clients[event["conn"]] = client
            elif event["ev"] == "req":
                theirs = answers.get((event["conn"], event["corr"]))
                if theirs is not None:
                    await self.ask(event, theirs["body"])

    async def ask(self, event, theirs):
        key, version, client = event["key"], event["v"], self.clients[event["conn"]]
        if key == API_VERSIONS:
            await self.greet(client, version, event["body"], theirs)
            return
        for topic in theirs["topics"] if key == METADATA else ():
            await self.create(topic)
        await self.produce_what_is_read(theirs)
        await self.produce_what_was_there(theirs)
        content = self.content(event["body"], theirs)
        ours = await client.ask(key, version, **content)
        if key == HEARTBEAT:
            self.epochs[ours.member_id] = ours.member_epoch
        label = f"{BY_KEY[key].label} version {version}"
        assert said(plain(ours)) == said(theirs), label
        if key == PRODUCE:
            self.note_produced(event["body"], theirs)
        self.answered += 1

    async def greet(self, client, version, body, theirs):
        name = compact(b"client") + compact(b"1")
        if version == 5:
            is_told = body["cluster_id"] is not None
            name += compact(self.mesh.view.cluster_id.encode()) if is_told else b"\0"
            name += struct.pack(">i", 7 if body["node_id"] >= 0 else -1)
        head = struct.pack(">hhih", API_VERSIONS, version, 1_000_000, -1)
        request = head + (b"\0" + name + b"\0" if version >= 3 else b"")
        client.writer.write(struct.pack(">i", len(request)) + request)
        ours = await client.answer(API_VERSIONS, min(version, 4), 1_000_000)
        assert plain(ours.error_code) == theirs["error_code"]
        kafkas = {
            each["api_key"]: (each["min_version"], each["max_version"])
            for each in theirs["api_keys"]
            if isinstance(each, dict)  # the recording has the first twelve
        }
        for each in ours.api_keys:
            lowest, highest = kafkas.get(each.api_key, (each.min_version, each.max_version))
            assert lowest <= each.min_version <= each.max_version <= highest

    async def produce_what_is_read(self, theirs):
        """Produce what others produced just before this answer: the batches that are new in it."""
        for topic in theirs.get("responses", ()):
            for part in topic.get("partitions", ()):
                for each in (part.get("records") or {}).get("batches", ()):
                    place = (topic["topic_id"], part["partition_index"])
                    assert each["base"] <= self.ends.get(place, 0), "a batch is missing before it"
                    if each["base"] == self.ends.get(place, 0):
                        await self.append(*place, each["count"])

    async def produce_what_was_there(self, theirs):
        """Produce what lies before what this answer says was appended."""
        for topic in theirs.get("responses", ()):
            for part in topic.get("partition_responses", ()):
                place = (topic.get("topic_id"), part["index"])
                if place[0] is None:
                    continue
                missing = part["base_offset"] - self.ends.get(place, 0)
                if missing > 0:
                    await self.append(*place, missing)

    def note_produced(self, asked, theirs):
        """Know how far partitions go now that the client itself has produced."""
        bases = {
            (topic.get("topic_id"), part["index"]): part["base_offset"]
            for topic in theirs["responses"]
            for part in topic["partition_responses"]
        }
        for topic in asked["topic_data"]:
            for part in topic["partition_data"]:
                place = (topic.get("topic_id"), part["index"])
                count = sum(each["count"] for each in part["records"]["batches"])
                self.ends[place] = bases[place] + count

    async def append(self, topic_id, partition, count):
        part = {"index": partition, "records": batch(*[b"value"] * count)}
        topic = {"topic_id": self.topic_ids[topic_id], "partition_data": [part]}
        async with self.mesh.connect() as client:
            await client.ask(
                PRODUCE,
                13,
                transactional_id=None,
                acks=-1,
                timeout=milliseconds(5_000),
                topic_data=[topic],
            )
        place = (topic_id, partition)
        self.ends[place] = self.ends.get(place, 0) + count

    def content(self, body, theirs):
        """Return a request with our ids; one that got nothing need not wait for it."""
        content = {name: self.value(name, each) for name, each in body.items()}
        if content.get("member_epoch", 0) > 0:
            content["member_epoch"] = self.epochs[content["member_id"]]
        if "max_wait" in content and not theirs["responses"]:
            content["max_wait"] = milliseconds(0)
        return content

    def value(self, name, value):
        if name in DURATIONS:
            return milliseconds(value)
        if name == "topic_id" and value is not None:
            return self.topic_ids[value]
        if name == "records":
            return b"".join(batch(*[b"value"] * each["count"]) for each in value["batches"])
        if isinstance(value, dict):
            return {each: self.value(each, inner) for each, inner in value.items()}
        if isinstance(value, list):
            return tuple(self.value(name, each) for each in value)
        return value


def compact(text):
    return bytes([len(text) + 1]) + text


NAMES = sorted(each.name.removesuffix(".jsonl.gz") for each in HERE.iterdir())


@pytest.mark.parametrize("name", NAMES)
async def test_the_listener_answers_a_recorded_client_as_kafka_did(name):
    """KLS-1, KLS-9 to KLS-11, KLS-14."""
    async with ListeningMesh() as mesh, contextlib.AsyncExitStack() as stack:
        conversation = Conversation(mesh, name, stack)
        await conversation.prepare()
        await conversation.hold()
        assert conversation.answered >= 2


def test_recorded_clients_ask_all_that_is_answered_but_for_administration():
    asked = {
        BY_KEY[each["key"]]
        for name in NAMES
        for each in events(name)
        if each["ev"] == "req" and each["key"] in BY_KEY
    }
    traffic = {
        ServedRequest.PRODUCE,
        ServedRequest.METADATA,
        ServedRequest.FIND_COORDINATOR,
        ServedRequest.API_VERSIONS,
        ServedRequest.INIT_PRODUCER_ID,
        ServedRequest.SHARE_GROUP_HEARTBEAT,
        ServedRequest.SHARE_FETCH,
        ServedRequest.SHARE_ACKNOWLEDGE,
    }
    assert asked == traffic | {ServedRequest.INCREMENTAL_ALTER_CONFIGS}
