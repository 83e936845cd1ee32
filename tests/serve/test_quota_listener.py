"""Quotas of connections, streams and processor time, for every method (QUO-13, QUO-14)."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.domain.quota.names import QuotaName
from sharemesh.ports.network import CallContext, CallFailedError
from sharemesh.serve.process.quota_listener import HELD_MAX, MeasuredSteps, QuotaListener
from sharemesh.telemetry.telemetry import without_export
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import group_coordinator_pb2, record_log_pb2, share_leader_pb2
from tests.called_functions import calls_of
from tests.clocks import ManualClock
from tests.listed_quotas import ListedQuotas

JANE, JOE, HERE = "User:jane", "User:joe", "here:1"
HEARTBEAT, EXPLAIN = methods.SHARE_GROUP_HEARTBEAT, methods.EXPLAIN
ASKED = share_leader_pb2.ExplainRequest(group_id="g")


class Served:
    """A process whose calls take as much processor time as tests say."""

    def __init__(self, limits):
        self.clock = ManualClock()
        self.quotas = ListedQuotas(limits)
        self.network = LocalNetwork()
        self.now_ns = 0
        self.takes_ns = 0
        self.times = []  # of the streams that are open
        self.asked_of = None  # what the last one who asked was told
        self.open = asyncio.Event()
        self.open.set()
        telemetry = without_export(lambda: self.now_ns)
        listener = self.network.listener(HERE)
        self.listener = QuotaListener(listener, self.quotas, self.clock, telemetry)
        self.listener.offer(EXPLAIN, self.explain)
        self.listener.offer(HEARTBEAT, self.heartbeat)
        self.listener.offer_stream(methods.HOLD_SESSION, self.hold)
        self.registry = telemetry.registry

    async def explain(self, request, context):
        self.now_ns += self.takes_ns
        self.asked_of = context.time
        await self.open.wait()
        return share_leader_pb2.ExplainResponse(reason="x")

    async def heartbeat(self, request, context):
        return group_coordinator_pb2.ShareGroupHeartbeatResponse()

    async def hold(self, stream, context):
        self.times.append(context.time)
        async for _ in stream:
            await context.time.measured(self.work())
            await stream.send(share_leader_pb2.HoldSessionResponse())

    async def work(self):
        self.now_ns += self.takes_ns

    def ask(self, caller):
        return asyncio.create_task(caller.call(EXPLAIN, ASKED, to=HERE))

    async def stream(self, caller):
        stream = await caller.stream(methods.HOLD_SESSION, to=HERE)
        await stream.send(share_leader_pb2.HoldSessionRequest())
        await anext(aiter(stream))
        return stream


@pytest.fixture
async def served():
    made = []

    def make(limits):
        made.append(Served(limits))
        return made[-1]

    yield make
    for each in made:
        await each.listener.close()


async def test_quo_13_one_stream_too_many_is_refused_and_room_comes_back(served):
    here = served({(QuotaName.STREAMS, JANE): 2})
    jane = here.network.caller(JANE)
    streams = [await here.stream(jane) for _ in range(2)]
    with pytest.raises(CallFailedError, match="quota streams of User:jane is 2: use fewer"):
        await here.stream(jane)
    await here.stream(here.network.caller(JOE))
    await streams[0].close()
    await here.clock.settle()
    await here.stream(jane)


async def test_quo_13_connections_with_open_calls_are_counted_and_forgotten(served):
    here = served({(QuotaName.CONNECTIONS, JANE): 1})
    here.open.clear()
    first, second = here.network.caller(JANE), here.network.caller(JANE)
    waits = [here.ask(first), here.ask(first)]
    await here.clock.settle()
    with pytest.raises(CallFailedError, match="quota connections of User:jane is 1"):
        await second.call(EXPLAIN, ASKED, to=HERE)
    here.open.set()
    await asyncio.gather(*waits)
    assert (await second.call(EXPLAIN, ASKED, to=HERE)).reason == "x"
    assert not here.listener._peers


async def test_quo_14_a_share_of_processor_time_is_kept_over_a_minute(served):
    here = served({(QuotaName.REQUEST_PERCENTAGE, JANE): 10})
    here.takes_ns = 3_000_000
    caller, answered = here.network.caller(JANE), 0

    async def ask_on():
        nonlocal answered
        while True:
            await caller.call(EXPLAIN, ASKED, to=HERE)
            answered += 1

    asking = [asyncio.create_task(ask_on()) for _ in range(2)]
    for _ in range(60):
        await here.clock.advance(1_000)
    taken_s = answered * 0.003
    assert 0.95 * 6 <= taken_s <= 1.05 * 6
    for each in asking:
        each.cancel()


async def test_quo_14_who_waits_in_vain_or_with_too_many_is_refused_in_words(served):
    here = served({(QuotaName.REQUEST_PERCENTAGE, JANE): 1})
    here.takes_ns = 10_000_000_000
    caller = here.network.caller(JANE)
    await caller.call(EXPLAIN, ASKED, to=HERE)
    asked = [here.ask(caller) for _ in range(HELD_MAX + 1)]
    await here.clock.settle()
    assert [each.done() for each in asked] == [False] * HELD_MAX + [True]
    await here.clock.advance(1_000)
    for each in asked:
        with pytest.raises(CallFailedError, match="quota request_percentage of User:jane is 1%"):
            await each


async def test_quo_14_an_answer_says_how_long_the_debt_lasts_and_heartbeats_do_not(served):
    here = served({(QuotaName.REQUEST_PERCENTAGE, JANE): 100})
    caller = here.network.caller(JANE)
    here.takes_ns = 400_000_000
    told = [(await caller.call(EXPLAIN, ASKED, to=HERE)).throttle_time_ms for _ in range(3)]
    assert told == [0, 0, 200]  # an idle one has a second's worth
    await here.clock.advance(200)
    here.takes_ns = 40_000_000_000
    assert (await caller.call(EXPLAIN, ASKED, to=HERE)).throttle_time_ms == 30_000
    asked = group_coordinator_pb2.ShareGroupHeartbeatRequest(group_id="g")
    assert (await caller.call(HEARTBEAT, asked, to=HERE)).throttle_time_ms == 0
    assert (await here.network.caller(JOE).call(EXPLAIN, ASKED, to=HERE)).throttle_time_ms == 0


def test_quo_14_every_answer_of_a_process_to_its_clients_has_room_for_a_throttle_time():
    without = {
        each.name
        for each in methods.METHODS
        if "throttle_time_ms" not in each.response.DESCRIPTOR.fields_by_name
    }
    streams = {"GroupCoordinator/ShareGroupHeartbeatStream", "ShareLeader/HoldSession"}
    own = {each.name for each in methods.METHODS if each.name.startswith("ShareCoordinator/")}
    assert without - streams == own  # the cluster's own processes have no bound (QUO-3)


async def test_quo_14_a_refusal_says_when_the_debt_is_paid(served):
    here = served({(QuotaName.REQUEST_PERCENTAGE, JANE): 100})
    here.takes_ns = 5_000_000_000
    caller = here.network.caller(JANE)
    assert (await caller.call(EXPLAIN, ASKED, to=HERE)).throttle_time_ms == 4_000
    asked = here.ask(caller)
    await here.clock.advance(1_000)
    with pytest.raises(CallFailedError) as refused:
        await asked
    assert refused.value.throttle_ms == 3_000


async def test_quo_14_small_steps_of_a_stream_are_taken_together_and_at_its_end(served):
    here = served({(QuotaName.REQUEST_PERCENTAGE, who): 0.05 for who in (JANE, JOE)})
    here.takes_ns = 600_000  # more than a second of that quota
    jane, joe = await here.stream(here.network.caller(JANE)), here.network.caller(JOE)
    assert here.times[0].throttle_ms == 0
    await jane.send(share_leader_pb2.HoldSessionRequest())
    await anext(aiter(jane))
    assert here.times[0].throttle_ms == 1_400
    short = await here.stream(joe)
    assert here.times[1].throttle_ms == 0
    await short.close()
    await here.clock.settle()
    assert here.times[1].throttle_ms == 200


async def test_quo_14_an_answer_keeps_a_longer_throttle_time_of_its_own(served):
    here = served({(QuotaName.REQUEST_PERCENTAGE, JANE): 100})
    here.takes_ns = 1_100_000_000

    async def produce(request, context):
        await here.work()
        return record_log_pb2.ProduceResponse(throttle_time_ms=700)

    here.listener.offer(methods.PRODUCE, produce)
    asked = record_log_pb2.ProduceRequest()
    answer = await here.network.caller(JANE).call(methods.PRODUCE, asked, to=HERE)
    assert answer.throttle_time_ms == 700


async def test_quo_15_who_asks_is_told_who_waits_for_processor_time(served):
    here = served({(QuotaName.REQUEST_PERCENTAGE, JANE): 1})
    here.takes_ns = 1_000_000_000
    await here.network.caller(JOE).call(EXPLAIN, ASKED, to=HERE)
    assert here.asked_of.holding_back(JANE) == ""
    await here.network.caller(JANE).call(EXPLAIN, ASKED, to=HERE)
    await here.network.caller(JOE).call(EXPLAIN, ASKED, to=HERE)
    assert "quota request_percentage of User:jane is 1%" in here.asked_of.holding_back(JANE)
    assert here.asked_of.holding_back(JOE) == ""


async def test_quo_14_the_work_of_streams_counts_for_unary_calls_too(served):
    here = served({(QuotaName.REQUEST_PERCENTAGE, JANE): 1})
    here.takes_ns = 10_000_000_000
    caller = here.network.caller(JANE)
    await here.stream(caller)
    asked = here.ask(caller)
    await here.clock.advance(1_000)
    with pytest.raises(CallFailedError, match="quota request_percentage of User:jane is 1%"):
        await asked
    assert here.times[0].throttle_ms == 30_000


async def test_quo_14_a_stream_waits_with_more_work_until_the_debt_is_paid(served):
    here = served({(QuotaName.REQUEST_PERCENTAGE, JANE): 100})
    here.takes_ns = 3_000_000_000
    await here.stream(here.network.caller(JANE))
    (time,) = here.times
    called = []
    assert not time.may_go_on(lambda: called.append("first"))
    forgotten = lambda: called.append("forgotten")  # noqa: E731
    assert not time.may_go_on(forgotten)
    time.forget(forgotten)
    await here.clock.advance(1_900)
    assert not called
    await here.clock.advance(200)
    assert called == ["first"]
    assert time.may_go_on(forgotten)
    assert time.throttle_ms == 0


async def test_quo_14_a_quota_binds_a_stream_that_is_open_from_its_moment(served):
    here = served({})
    here.takes_ns = 5_000_000_000
    stream = await here.stream(here.network.caller(JANE))
    (time,) = here.times
    assert time.may_go_on(lambda: None)
    here.quotas.set(QuotaName.REQUEST_PERCENTAGE, JANE, 100)
    await stream.send(share_leader_pb2.HoldSessionRequest())
    await anext(aiter(stream))
    assert not time.may_go_on(lambda: None)


class Noted:
    """A listener that keeps what is offered."""

    def offer(self, method, handler):
        self.answer = handler


async def test_quo_17_what_a_call_passes_beyond_an_unbound_one_is_little():
    """All that was looked up of the principal is kept until quotas change."""
    every = {(name, JANE): 1e6 for name in QuotaName}
    telemetry, costs = without_export(lambda: 0), []
    for limits in ({}, every):
        noted = Noted()
        listener = QuotaListener(noted, ListedQuotas(limits), ManualClock(), telemetry)

        async def handler(request, context):
            return request

        listener.offer(methods.SHARE_ACKNOWLEDGE, handler)

        def call(noted=noted):
            return noted.answer(None, CallContext("here:1", JANE))

        await call()  # the first one looks it up
        costs.append(calls_of(lambda call=call: call().send(None)))
        await listener.close()
    assert costs[1] - costs[0] <= 18


def test_quo_17_who_is_bound_is_forgotten_as_quotas_change_and_for_not_too_many(monkeypatch):
    monkeypatch.setattr("sharemesh.serve.process.quota_listener.ACCOUNTS_MAX", 3)
    quotas = ListedQuotas({})
    listener = QuotaListener(Noted(), quotas, ManualClock(), without_export(lambda: 0))
    for number in range(10):
        assert listener._bounds_of(f"User:{number}") == (None, False)
        assert len(listener._bounds) <= 3
    quotas.set(QuotaName.CONNECTIONS, "User:9", 2)
    assert not listener._bounds
    assert listener._bounds_of("User:9") == (2, False)


async def test_quo_14_steps_are_told_as_they_end():
    now_ns, told = 0, []

    async def work():
        nonlocal now_ns
        now_ns += 5
        await asyncio.sleep(0)
        assert told == [5]
        now_ns += 7

    await MeasuredSteps(work(), lambda: now_ns, told.append)
    assert told == [5, 7]


async def test_quo_10_heartbeats_do_not_wait_for_processor_time(served):
    here = served({(QuotaName.REQUEST_PERCENTAGE, JANE): 1})
    here.takes_ns = 10_000_000_000
    caller = here.network.caller(JANE)
    await caller.call(EXPLAIN, ASKED, to=HERE)
    asked = group_coordinator_pb2.ShareGroupHeartbeatRequest()
    await caller.call(HEARTBEAT, asked, to=HERE)


async def test_quo_14_only_the_steps_of_a_handler_count_and_errors_pass():
    now_ns = 0

    async def work(fails):
        nonlocal now_ns
        now_ns += 5
        await asyncio.sleep(0)
        now_ns += 7
        if fails:
            raise ValueError
        return "done"

    async def between():
        nonlocal now_ns
        now_ns += 1_000

    steps = MeasuredSteps(work(False), lambda: now_ns)
    assert (await asyncio.gather(steps_of(steps), between()))[0] == "done"
    assert steps.spent_ns == 12
    failing = MeasuredSteps(work(True), lambda: now_ns)
    with pytest.raises(ValueError):
        await failing
    assert failing.spent_ns == 12


async def steps_of(steps):
    return await steps


async def test_quo_14_a_caller_that_goes_away_ends_the_handler():
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    waits = asyncio.create_task(steps_of(MeasuredSteps(work(), lambda: 0)))
    await asyncio.sleep(0)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert ended == [True]
