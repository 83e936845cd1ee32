"""Groups over topics of a Kafka cluster: what they want, and how long states are kept (KTP)."""

from sharemesh.group_coordinator.coordinator_context import ServiceLimits
from tests.group_coordinator.world import topic_id, world

FOO = topic_id("foo")
GRACE_MS = 600_000


class HeardWishes:
    """Fills TopicWishes; keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []

    def want(self, names) -> None:
        self.heard.append(tuple(names))


async def test_ktp_2_a_subscription_is_told_at_once_and_again_each_minute():
    async with world(foo=1) as made:
        made.wishes = HeardWishes()
        await made.start()
        await made.hb("m1", 0, ["foo", "missing"])
        assert made.wishes.heard == [("foo", "missing")]
        made.wishes.heard.clear()
        for _ in range(12):
            await made.clock.advance(5_000)
            answer = await made.hb("m1", 0, ["foo", "missing"])
        assert answer.error_code == 0
        await made.until(lambda: ("foo", "missing") in made.wishes.heard)


async def test_ktp_2_a_subscription_that_is_refused_is_not_told():
    async with world(foo=1) as made:
        made.wishes = HeardWishes()
        await made.start()
        made.rules.denied.add(("describe", "topic", "missing"))
        answer = await made.hb("m1", 0, ["missing"])
        assert answer.error_code
        assert made.wishes.heard == []


async def test_ktp_10_states_of_a_topic_that_has_gone_are_kept_for_the_grace():
    limits = ServiceLimits(unknown_topic_grace_ms=GRACE_MS, deleted_topics_wait=True)
    async with world(foo=2, bar=1, limits=limits) as made:
        await made.joined("m1", ["foo", "bar"])
        await made.topics(bar=1)
        await made.clock.advance(GRACE_MS - 1)
        assert made.states.deleted == []
        assert FOO in made.service.served[0].decisions.group("g").initialized
        await made.clock.advance(GRACE_MS + 2)
        await made.until(lambda: made.states.deleted)


async def test_ktp_10_a_topic_that_comes_back_with_its_id_finds_its_states():
    limits = ServiceLimits(unknown_topic_grace_ms=GRACE_MS, deleted_topics_wait=True)
    async with world(foo=2, bar=1, limits=limits) as made:
        await made.joined("m1", ["foo", "bar"])
        await made.topics(bar=1)
        await made.clock.advance(GRACE_MS - 1)
        await made.topics(foo=2, bar=1)
        await made.clock.advance(3 * GRACE_MS)
        assert made.states.deleted == []


async def test_ktp_10_a_topic_that_comes_back_while_it_is_being_forgotten_keeps_its_states():
    limits = ServiceLimits(unknown_topic_grace_ms=GRACE_MS, deleted_topics_wait=True)
    async with world(foo=2, bar=1, limits=limits) as made:
        await made.joined("m1", ["foo", "bar"])
        made.service.served[0].state_work.topics_gone({FOO: 0})  # decided while it was away
        await made.clock.settle()
        assert made.states.deleted == []
        assert FOO in made.service.served[0].decisions.group("g").initialized


async def test_ktp_10_the_grace_begins_anew_each_time_a_topic_goes():
    limits = ServiceLimits(unknown_topic_grace_ms=GRACE_MS, deleted_topics_wait=True)
    async with world(foo=2, bar=1, limits=limits) as made:
        await made.joined("m1", ["foo", "bar"])
        await made.topics(bar=1)
        await made.clock.advance(GRACE_MS + 1)
        await made.topics(foo=2, bar=1)
        await made.clock.advance(GRACE_MS - 3)
        await made.topics(bar=1)
        await made.clock.advance(GRACE_MS - 1)
        assert made.states.deleted == []
        assert FOO in made.service.served[0].decisions.group("g").initialized
