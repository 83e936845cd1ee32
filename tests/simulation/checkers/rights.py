"""AUT-4 to AUT-6: nothing is handed out after its server saw that the right is gone."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sharemesh.cluster.acl_table import AclTable
from sharemesh.cluster.store.acl_rules import AclRule
from sharemesh.domain.ids import TopicId
from sharemesh.group_coordinator.heartbeats import HeartbeatHandler
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.share_leader.requests.share_fetch import ShareFetch
from sharemesh.share_leader.streaming.consume import Consume
from tests.simulation.access import READERS
from tests.simulation.loop import PROCESS, Process
from tests.simulation.patching import Patches
from tests.simulation.world import World

LOOK_S = 0.5
OPEN_MAX_S = 8.0  # so long a stream without its right may stay open: its last word takes time
THAWED_S = 2.0


@dataclass(eq=False, slots=True)
class _Open:
    """One open stream at a server, and since when its principal may not read its group."""

    process: Process
    principal: str
    kind: str
    group: str = ""
    without_right_s: float | None = None
    told: bool = field(default=False)


class _Watched:
    """The server's side of a stream; what is sent is looked at as it is handed over."""

    def __init__(self, stream: Any, heard: Callable[[Any], None], says: Callable[[Any], None]):
        self._stream = stream
        self._heard = heard
        self._says = says

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        message = await anext(self._stream)
        self._heard(message)
        return message

    async def send(self, message: Any) -> None:
        self._says(message)
        await self._stream.send(message)

    async def close(self) -> None:
        await self._stream.close()


class RightsChecker:
    """Keeps the rules as each process saw them last, and judges them by itself."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rules: dict[Process, frozenset[AclRule]] = {}
        self._open: dict[_Open, None] = {}
        self._counters = world.event_log.counters

    # ---- what is looked at ----------------------------------------------------------------------

    def install(self, patches: Patches) -> None:
        """Look at tables of rules, and at what leaders and coordinators send."""
        checker, real_read = self, AclTable._read

        def read(table: AclTable) -> None:
            real_read(table)
            process = PROCESS.get()
            checker._rules[process] = frozenset(table._view.tables.acls.values())
            checker._seen(process)

        patches.setattr(AclTable, "_read", read)
        self._install_streams(patches, Consume, "__call__", "Consume", self._consumed)
        self._install_streams(patches, HeartbeatHandler, "stream", "heartbeats", self._assigned)
        real_fetch = ShareFetch.__call__

        async def fetch(handler: Any, request: Any, context: Any) -> Any:
            response = await real_fetch(handler, request, context)
            checker._delivered(context.principal, request.group_id, response.responses)
            return response

        patches.setattr(ShareFetch, "__call__", fetch)

    def _install_streams(
        self,
        patches: Patches,
        handler_type: type,
        name: str,
        kind: str,
        judge: Callable[[_Open, Any], None],
    ) -> None:
        checker, real = self, handler_type.__dict__[name]

        async def serve(handler: Any, stream: Any, context: Any) -> None:
            opened = _Open(PROCESS.get(), context.principal, kind)
            watched = _Watched(
                stream,
                lambda message: checker._begins(opened, message),
                lambda message: judge(opened, message),
            )
            checker._open[opened] = None
            try:
                await real(handler, watched, context)
            finally:
                checker._open.pop(opened, None)

        patches.setattr(handler_type, name, serve)

    def _begins(self, opened: _Open, message: Any) -> None:
        if not opened.group:
            opened.group = message.start.group_id if opened.kind == "Consume" else message.group_id
            self._judge_right(opened)

    # ---- what must hold -------------------------------------------------------------------------

    def _may(self, principal: str, resource: ResourceType, name: str) -> bool:
        if principal not in READERS:
            return True
        wanted = (principal, Operation.READ, resource, name)
        rules = self._rules.get(PROCESS.get(), frozenset())
        return any((r.principal, r.operation, r.resource, r.name) == wanted for r in rules)

    def _consumed(self, opened: _Open, message: Any) -> None:
        opened.told = opened.told or message.error_code == 30
        self._delivered(opened.principal, opened.group, message.responses)

    def _delivered(self, principal: str, group: str, topics: Any) -> None:
        for topic in topics:
            if any(each.acquired_records for each in topic.partitions):
                self._counters["answers with records, judged by rights"] += 1
                name = self._world.topic_names.get(TopicId(topic.topic_id), "")
                self._must(principal, ResourceType.GROUP, group, "records")
                self._must(principal, ResourceType.TOPIC, name, "records")
            self._counters["refused by topic"] += sum(p.error_code == 29 for p in topic.partitions)

    def _assigned(self, opened: _Open, message: Any) -> None:
        if message.error_code in (29, 30):
            opened.told = True
            self._counters[f"heartbeat streams ended by {message.error_code}"] += 1
        for topic in message.assignment.topic_partitions:
            if topic.topic_name:
                self._must(opened.principal, ResourceType.GROUP, opened.group, "an assignment")
                self._must(opened.principal, ResourceType.TOPIC, topic.topic_name, "an assignment")

    def _must(self, principal: str, resource: ResourceType, name: str, what: str) -> None:
        if not self._may(principal, resource, name):
            self._say(
                f"{PROCESS.get()} handed {what} to {principal} after it saw that READ on "
                f"{resource.value} {name} was revoked"
            )

    def _seen(self, process: Process) -> None:
        for opened in self._of(process):
            self._judge_right(opened)

    def _judge_right(self, opened: _Open) -> None:
        if self._may(opened.principal, ResourceType.GROUP, opened.group):
            opened.without_right_s = None
        elif opened.without_right_s is None:
            opened.without_right_s = self._world.now_s
            self._counters["streams whose group was revoked"] += 1

    def _of(self, process: Process) -> Iterator[_Open]:
        return (each for each in list(self._open) if each.process is process and each.group)

    async def run(self) -> None:
        """Look for streams that stay open without their right, until the run ends."""
        while True:
            await asyncio.sleep(LOOK_S)
            for opened in list(self._open):
                process, since_s = opened.process, opened.without_right_s
                if not process.alive:
                    del self._open[opened]
                elif since_s is not None and self._is_awake(process):
                    open_s = self._world.now_s - max(since_s, process.thawed_s)
                    if open_s > OPEN_MAX_S:
                        del self._open[opened]
                        self._say(
                            f"the {opened.kind} stream of {opened.principal} is open at {process} "
                            f"{open_s:.1f} s after READ on group {opened.group} was revoked"
                        )

    def _is_awake(self, process: Process) -> bool:
        return not process.frozen and self._world.now_s - process.thawed_s > THAWED_S

    def _say(self, text: str) -> None:
        self._world.event_log.violation(self._world.now_s, text)
