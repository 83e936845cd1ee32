"""Section R, what the server answers: lag from the states that are stored."""

from sharemesh.domain.ids import TopicPartition
from tests.conformance.scenario import scenario
from tests.group_coordinator.with_states import mesh
from tests.group_coordinator.world import topic_id

FOO = TopicPartition(topic_id("foo"), 0)
ACKNOWLEDGED = 2


async def finished(both, count):
    """A group without members that has finished all ``count`` records of foo-0."""
    made = both.made
    await made.lead(("foo", 0))
    made.log_ends[FOO] = count
    await made.joined("m1", ["foo"])
    state = await both.read("foo", 0)
    assert await both.write("foo", 0, start=count, complete=0, epoch=state.state_epoch) == 0
    await made.hb("m1", -1)


@scenario("ADM-S04")
async def test_lag_after_altered_offsets():
    async with mesh(foo=1) as both:
        await finished(both, 105)
        assert await both.offsets() == {("foo", 0): (105, 0)}
        assert await both.alter("foo", 0, 40) == 0
        assert await both.offsets() == {("foo", 0): (40, 65)}


@scenario("ADM-S06")
async def test_lag_is_the_same_after_either_coordinator_moves():
    async with mesh(foo=1) as both:
        await finished(both, 105)
        both.made.log_ends[FOO] = 112
        assert await both.offsets() == {("foo", 0): (105, 7)}
        await both.made.start()
        assert await both.offsets() == {("foo", 0): (105, 7)}
        await both.start_states()
        assert await both.offsets() == {("foo", 0): (105, 7)}


@scenario("ADM-S08")
async def test_lag_counts_what_is_not_acknowledged():
    async with mesh(foo=1) as both:
        made = both.made
        await made.lead(("foo", 0))
        made.log_ends[FOO] = 30
        assert await both.alter("foo", 0, 10) == 0
        epoch = (await both.read("foo", 0)).state_epoch
        batches = [(15, 19, ACKNOWLEDGED, 1)]
        assert await both.write("foo", 0, start=10, complete=5, batches=batches, epoch=epoch) == 0
        assert await both.offsets() == {("foo", 0): (10, 15)}
