"""QUO-2 to QUO-11: rates are kept, told as they are, and stop nobody for longer than they must.

The checker keeps accounts of its own, by the values as each process saw them last, and compares
them with what leaders let through, what they refuse, which throttle times they tell, and with who
still waits.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from sharemesh.cluster.acl_table import NODE_PRINCIPAL
from sharemesh.cluster.quota_table import QuotaTable
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.quota.bounds import QuotaBounds
from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName
from sharemesh.share_leader.pacing import LeaderPacing
from sharemesh.share_leader.partition.led_partitions import LedPartition
from sharemesh.share_leader.partition.share_partition_runner import SharePartitionRunner
from sharemesh.share_leader.requests.acknowledgements import Acknowledgements
from sharemesh.share_leader.requests.acquisition import FetchAcquisition
from sharemesh.share_leader.requests.produce import Produce
from sharemesh.share_leader.requests.share_fetch import ShareAcknowledge, ShareFetch
from sharemesh.share_leader.streaming.consume_stream import ConsumeStream
from sharemesh.throttling.paced_rate import THROTTLE_MAX_MS, PacedRate
from tests.simulation.loop import PROCESS, Process
from tests.simulation.patching import Patches
from tests.simulation.world import World

LOOK_S = 0.1
STUCK_LOOKS = 10  # so often in a row somebody may be found to wait who could go on
TOLERANCE_MS = 2
DELAY_MAX_S = 0.01
Values = dict[QuotaEntity, Mapping[QuotaName, float]]

HAND_OVERS_S = 2.1  # what one request waits for at most, at an old leader and at a next one
_FINISHING_S: ContextVar[list[float]] = ContextVar("finishing")
_HANDED_OVER_S: ContextVar[list[float]] = ContextVar("handed_over")
_APPENDED: ContextVar[list[bool]] = ContextVar("appended")


@dataclass(slots=True)
class _Account:
    """What one may take, by the words of QUO-5: a second's worth, then as time brings it.

    A full account may be forgotten; then a raised quota begins with a full second of its own. One
    that was only looked at before the quota was raised goes on with a second's worth of the lower
    value. So ``most`` is what there may be, ``tokens`` what there is at least.
    """

    rate: float
    at_ms: int
    tokens: float
    most: float
    in_flight: int = 0
    largest: float = 0.0
    beyond: float = 0.0

    def pay(self, now_ms: int) -> None:
        passed_s = max(0, now_ms - self.at_ms) / 1_000
        self.tokens = min(self.tokens + self.rate * passed_s, self.rate)
        self.most = min(self.most + self.rate * passed_s, self.rate)
        self.at_ms = max(self.at_ms, now_ms)

    def change(self, rate: float, now_ms: int) -> None:
        self.pay(now_ms)
        is_full = self.most >= self.rate and not self.in_flight
        self.rate, self.tokens = rate, min(self.tokens, rate)
        self.most = rate if is_full else min(self.most, rate)

    @property
    def is_open(self) -> bool:
        return self.tokens >= -1e-6 * self.rate

    @property
    def may_be_open(self) -> bool:
        return self.most >= -1e-6 * self.rate

    @property
    def debts_ms(self) -> tuple[float, float]:
        """The least and the most that the throttle time may be."""
        least, most = (
            min(max(0.0, -tokens * 1_000 / self.rate), THROTTLE_MAX_MS)
            for tokens in (self.most, self.tokens)
        )
        return least, most

    def begins(self) -> None:
        """Somebody begins to take; while several do, the last may go below nothing."""
        if not self.in_flight:
            self.largest = self.beyond = 0.0
        self.in_flight += 1

    def takes(self, reserved: float, amount: float) -> bool:
        """Take; return whether it is within the bound."""
        self.in_flight -= 1
        self.tokens -= amount
        self.most -= amount
        self.largest = max(self.largest, amount)
        self.beyond += max(0.0, amount - min(reserved, self.rate))
        return self.most >= -self.largest - self.beyond - 1


class _Seen:
    """One process: its quotas as it saw them last, and the accounts of who is bound."""

    def __init__(self, table: QuotaTable, known: Mapping[int, Values], world: World) -> None:
        self._table = table
        self._known = known
        self._unbounded = {NODE_PRINCIPAL, *world.super_users}
        coordination = world.nodes[PROCESS.get().name].coordination
        assert coordination is not None
        self._clock = coordination.clock
        self._accounts: dict[tuple[QuotaName, str], _Account] = {}

    @property
    def values(self) -> Values:
        return self._known.get(id(self._table._view.tables.quotas), {})

    def limit(self, name: QuotaName, entity: str) -> float | None:
        """Return what binds somebody: its own value, else the default, else nothing (QUO-2)."""
        kind = name.entity_type
        if kind is EntityType.USER and entity in self._unbounded:
            return None
        for each in (QuotaEntity(kind, entity), QuotaEntity(kind, None)):
            found = self.values.get(each, {}).get(name)
            if found is not None:
                return found
        return None

    def changed(self) -> None:
        """A new value holds from its moment; what is lifted is paid as before."""
        for (name, entity), account in self._accounts.items():
            limit = self.limit(name, entity)
            if limit is not None and limit != account.rate:
                account.change(limit, self._clock.now_ms())

    def account(self, name: QuotaName, entity: str) -> _Account | None:
        limit = self.limit(name, entity)
        if limit is None:
            return None
        found = self._accounts.get((name, entity))
        if found is None:
            found = _Account(limit, self._clock.now_ms(), limit, limit)
            self._accounts[name, entity] = found
        found.pay(self._clock.now_ms())
        return found


class RateChecker:
    """Watches all leaders of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counters = world.event_log.counters
        self._known: dict[int, Values] = defaultdict(dict)
        self._kept: list[object] = []
        self._seen: dict[Process, _Seen] = {}
        self._pacing: list[tuple[Process, LeaderPacing]] = []
        self._stuck: dict[tuple[Process, QuotaName, str], int] = {}

    # ---- what is looked at ----------------------------------------------------------------------

    def install(self, patches: Patches) -> None:
        """Look at quotas as they are seen, and at what leaders let through, from now on."""
        self._install_quotas(patches)
        self._install_producing(patches)
        self._install_consuming(patches)
        self._install_acknowledging(patches)

    def _install_quotas(self, patches: Patches) -> None:
        checker = self
        real_put, real_table, real_pacing, real_account = (
            QuotaBounds.put,
            QuotaTable.__init__,
            LeaderPacing.__init__,
            PacedRate.account,
        )

        def put(bounds, entity, values):
            real_put(bounds, entity, values)
            checker._kept.append(bounds)  # so that no other gets its id
            checker._known[id(bounds)][entity] = dict(values)

        def table(table, view, *, super_users):
            seen = checker._seen[PROCESS.get()] = _Seen(table, checker._known, checker._world)
            table._view = view
            table.on_change(seen.changed)  # before all others hear of it
            real_table(table, view, super_users=super_users)

        def pacing(pacing, *arguments):
            real_pacing(pacing, *arguments)
            checker._pacing.append((PROCESS.get(), pacing))

        def account(rate, entity):
            found = real_account(rate, entity)
            if found is not None:
                checker._account(rate.name, entity)  # both begin with the first look
            return found

        patches.setattr(QuotaBounds, "put", put)
        patches.setattr(QuotaTable, "__init__", table)
        patches.setattr(LeaderPacing, "__init__", pacing)
        patches.setattr(PacedRate, "account", account)

    def _install_producing(self, patches: Patches) -> None:
        checker, real_call, real_append = self, Produce.__call__, Produce._append_all

        async def call(produce, request, context):
            appended: list[bool] = []
            _APPENDED.set(appended)
            response = await real_call(produce, request, context)
            if response.partitions:
                checker._produced(context.principal, response, appended=bool(appended))
            return response

        async def append_all(produce, request, records, context):
            _APPENDED.get([]).append(True)
            size = sum(
                len(each.records) + sum(one.ByteSize() for one in each.decoded_records)
                for each in request.partitions
            )
            name = QuotaName.PRODUCER_BYTE_RATE
            account = checker._begins(name, context.principal, "a Produce was let through")
            checker._takes(name, context.principal, account, size, size)
            return await real_append(produce, request, records, context)

        patches.setattr(Produce, "__call__", call)
        patches.setattr(Produce, "_append_all", append_all)

    def _install_consuming(self, patches: Patches) -> None:
        checker = self
        real_take, real_fetch, real_tell = (
            FetchAcquisition._take,
            ShareFetch.__call__,
            LeaderPacing.throttle_ms,
        )

        async def take(acquisition, runners, owner, order, reader, taken):
            if order.max_records <= 0:
                await real_take(acquisition, runners, owner, order, reader, taken)
                return
            bytes_of, records_of = QuotaName.CONSUMER_BYTE_RATE, QuotaName.RECORD_RATE
            what = "a fetch was let through"
            of_principal = checker._begins(bytes_of, reader.principal, what)
            of_group = checker._begins(records_of, reader.group_id, what)
            try:
                await real_take(acquisition, runners, owner, order, reader, taken)
            finally:
                size, count = sum(len(one.records) for one in taken), sum(o.count for o in taken)
                checker._takes(bytes_of, reader.principal, of_principal, order.max_bytes, size)
                checker._takes(records_of, reader.group_id, of_group, order.max_records, count)

        def tell(pacing, principal, group_id):
            told_ms = real_tell(pacing, principal, group_id)
            checker._tells_members(principal, group_id, told_ms)
            return told_ms

        async def fetch(handler, request, context):
            response = await real_fetch(handler, request, context)
            if not response.error_code:
                checker._tells_members(
                    context.principal, request.group_id, response.throttle_time_ms
                )
            return response

        patches.setattr(FetchAcquisition, "_take", take)
        patches.setattr(LeaderPacing, "throttle_ms", tell)
        patches.setattr(ShareFetch, "__call__", fetch)

    def _install_acknowledging(self, patches: Patches) -> None:
        """Measure what an acknowledgement waits for beside its write: in virtual time, nothing.

        But for locks that are handed over: at most a second at either leader (HND-4, HND-10).
        """
        checker, world = self, self._world
        real_finish, real_answer, real_handle = (
            Acknowledgements.finish,
            ShareAcknowledge._answer,
            ConsumeStream._acknowledge,
        )

        async def finish(acknowledgements, under_way):
            begun_s = world.now_s
            outcomes = await real_finish(acknowledgements, under_way)
            _FINISHING_S.get([]).append(world.now_s - begun_s)
            return outcomes

        def timed(real):
            async def wait(awaited):
                begun_s = world.now_s
                try:
                    await real(awaited)
                finally:
                    _HANDED_OVER_S.get([]).append(world.now_s - begun_s)

            return wait

        async def answer(handler, request, context):
            finishing: list[float] = []
            handed_over: list[float] = []
            _FINISHING_S.set(finishing)
            _HANDED_OVER_S.set(handed_over)
            begun_s = world.now_s
            response = await real_answer(handler, request, context)
            waited_s = sum(finishing) + min(sum(handed_over), HAND_OVERS_S)
            checker._acknowledged(begun_s, waited_s, context.principal)
            return response

        async def handle(stream, acknowledge):
            begun_s, is_busy = world.now_s, stream._acknowledges_under_way.locked()
            handed_over: list[float] = []
            _HANDED_OVER_S.set(handed_over)
            await real_handle(stream, acknowledge)
            if not is_busy:
                waited_s = min(sum(handed_over), HAND_OVERS_S)
                checker._acknowledged(begun_s, waited_s, stream._terms.reader.principal)

        patches.setattr(Acknowledgements, "finish", finish)
        patches.setattr(ShareAcknowledge, "_answer", answer)
        patches.setattr(ConsumeStream, "_acknowledge", handle)
        for holder, name in (
            (LedPartition, "until_handed_over"),
            (SharePartitionRunner, "until_begun"),
        ):
            patches.setattr(holder, name, timed(getattr(holder, name)))

    # ---- what must hold -------------------------------------------------------------------------

    def limit(self, name: QuotaName, entity: str) -> float | None:
        """Return what binds somebody, as the process that runs just now saw it last."""
        seen = self._seen.get(PROCESS.get())
        return None if seen is None else seen.limit(name, entity)

    def _account(self, name: QuotaName, entity: str) -> _Account | None:
        seen = self._seen.get(PROCESS.get())
        return None if seen is None else seen.account(name, entity)

    def _begins(self, name: QuotaName, entity: str, what: str) -> _Account | None:
        account = self._account(name, entity)
        if account is None:
            return None
        self._counters[f"judged by {name.value}"] += 1
        if not account.may_be_open:
            self._say(f"{what} beside a debt of {-account.most:.0f}: {name.value} of {entity}")
        account.begins()
        return account

    def _takes(
        self, name: QuotaName, entity: str, account: _Account | None, reserved: float, amount: float
    ) -> None:
        if account is None:
            return
        seen = self._seen[PROCESS.get()]
        account.pay(seen._clock.now_ms())
        if not account.takes(reserved, amount):
            self._say(
                f"{name.value} of {entity} is {account.rate:.0f}: {-account.most:.0f} beyond it "
                "were taken at the same time"
            )

    def _produced(self, principal: str, response: Any, *, appended: bool) -> None:
        account = self._account(QuotaName.PRODUCER_BYTE_RATE, principal)
        debts_ms = (0.0, 0.0) if account is None else account.debts_ms
        told_ms = response.throttle_time_ms
        codes = {each.error_code for each in response.partitions}
        if ErrorCode.THROTTLING_QUOTA_EXCEEDED in codes:
            self._counters["produce requests refused by a quota"] += 1
            if appended or len(codes) > 1:
                self._say(f"a Produce of {principal} was refused by a quota, and counted or kept")
            debts_ms = (max(1.0, debts_ms[0]), max(1.0, debts_ms[1]))
        elif told_ms:
            self._counters["produce answers with a throttle time"] += 1
        if appended or ErrorCode.THROTTLING_QUOTA_EXCEEDED in codes:
            self._tells(principal, debts_ms, told_ms)

    def _tells_members(self, principal: str, group: str, told_ms: int) -> None:
        found = (
            self._account(QuotaName.CONSUMER_BYTE_RATE, principal),
            self._account(QuotaName.RECORD_RATE, group),
        )
        self._counters["deliveries with a throttle time"] += bool(told_ms)
        debts_ms = [each.debts_ms for each in found if each is not None]
        least_ms, most_ms = (max((d[i] for d in debts_ms), default=0.0) for i in (0, 1))
        self._tells(f"{principal} in {group}", (least_ms, most_ms), told_ms)

    def _tells(self, whom: str, debts_ms: tuple[float, float], told_ms: int) -> None:
        self._counters["throttle times judged"] += 1
        least_ms, most_ms = debts_ms
        if not least_ms - TOLERANCE_MS <= told_ms <= most_ms + TOLERANCE_MS:
            self._say(f"{whom} is told a throttle time of {told_ms} ms, not {most_ms:.0f}")

    def _acknowledged(self, begun_s: float, writing_s: float, principal: str) -> None:
        process = PROCESS.get()
        if process.thawed_s >= begun_s:
            return
        account = self._account(QuotaName.CONSUMER_BYTE_RATE, principal)
        if account is not None and not account.is_open:
            self._counters["acknowledgements of who is in debt"] += 1
        took_s = self._world.now_s - begun_s - writing_s
        if took_s > DELAY_MAX_S:
            self._say(f"an acknowledgement of {principal} waited {took_s:.3f} s beside its write")

    async def run(self) -> None:
        """Look for those who wait although they could go on, until the run ends."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._pacing = [each for each in self._pacing if each[0].alive]
            found = {key: self._stuck.get(key, 0) + 1 for key in self._could_go_on()}
            self._stuck = found
            for (process, name, entity), looks in found.items():
                if looks == STUCK_LOOKS:
                    self._world.event_log.violation(
                        self._world.now_s,
                        f"{entity} waits at {process} for {name.value}, which lets it go on",
                    )

    def _could_go_on(self) -> Iterator[tuple[Process, QuotaName, str]]:
        for process, pacing in self._pacing:
            seen = self._seen.get(process)
            if seen is None or process.frozen or self._world.now_s - process.thawed_s < 1:
                continue
            for rate in (pacing._producing, pacing._consuming, pacing._delivering):
                for entity in self._waiting(rate):
                    self._counters["looks at who waits for a quota"] += 1
                    account = seen.account(rate.name, entity)
                    if account is None or (account.is_open and not account.in_flight):
                        yield process, rate.name, entity

    @staticmethod
    def _waiting(rate: PacedRate) -> list[str]:
        return [entity for entity, callbacks in rate._waiting.items() if callbacks]

    def knows(self, stored: Values) -> Iterator[str]:
        """Yield what living processes do not know of the quotas that are stored (QUO-2)."""
        for process, seen in self._seen.items():
            if process.alive and not process.frozen:
                known = {entity: values for entity, values in seen.values.items() if values}
                if known != stored:
                    yield f"{process} goes by quotas {known}, stored are {stored}"

    def _say(self, text: str) -> None:
        self._world.event_log.violation(self._world.now_s, f"{PROCESS.get()}: {text}")
