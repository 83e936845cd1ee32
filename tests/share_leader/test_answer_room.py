"""BND-33: Fetch and ShareFetch read as far as there is room in what answers may take."""

from dataclasses import replace

from sharemesh.domain.ids import TopicPartition
from tests.share_leader.test_fetch import at, fetch, offsets
from tests.share_leader.world import FOO, acquired, world

P0 = TopicPartition(FOO, 0)
KIB = 1_000


class Room:
    """Room that the test decides."""

    def __init__(self, size):
        self.size = self.least = size
        self.waited_ms = []

    async def until_room(self, timeout_ms):
        self.waited_ms.append(timeout_ms)

    def take(self, most):
        taken = min(most, self.size)
        self.size -= taken
        self.least = min(self.least, self.size)
        return taken

    def give_back(self, size):
        self.size += size


class Asking:
    """Stands for the network: calls have this room for their answers."""

    def __init__(self, w, room):
        self.network = self
        self._world, self._room = w, room

    def caller(self, principal):
        return with_room(self._world.network.caller(principal), self._room)


def with_room(caller, room):
    caller._context = replace(caller._context, answer=room)
    return caller


async def test_bnd_33_a_fetch_reads_what_has_room_and_sets_aside_what_it_read():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1, 1, 1, 1, padding=b"x" * KIB)
        room = Room(3 * KIB + 500)
        (found,) = (await fetch(Asking(w, room), at(0))).partitions
        assert offsets(found) == [0, 1, 2]
        assert room.size == 3 * KIB + 500 - len(found.records)
        assert room.waited_ms


async def test_bnd_33_a_fetch_without_room_is_answered_without_records():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1)
        room = Room(0)
        (found,) = (await fetch(Asking(w, room), at(0))).partitions
        assert (found.error_code, found.records, found.high_watermark) == (0, b"", 1)


async def test_bnd_33_a_fetch_that_found_nothing_holds_nothing():
    async with world() as w:
        await w.lead(P0)
        room = Room(100 * KIB)
        await fetch(Asking(w, room), at(0))
        assert (room.size, room.least) == (100 * KIB, 0)


async def test_bnd_33_a_share_fetch_acquires_what_has_room_and_locks_nothing_without():
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest")
        await w.lead(P0)
        await w.produce(P0, 1, 1, 1, 1, padding=b"x" * KIB)
        member = w.client("m1")
        await member.join(P0)
        room = Room(0)
        with_room(member.caller, room)
        answer = await member.fetch(max_wait_ms=0)
        assert (answer.error_code, acquired(answer, P0)) == (0, [])
        room.size = 2 * KIB + 500
        answer = await member.fetch(batch_size=1)
        assert acquired(answer, P0) == [(0, 0, 1), (1, 1, 1)]
        assert 0 < room.size < KIB
        other = w.client("m2")
        await other.join(P0)
        assert acquired(await other.fetch(batch_size=1), P0) == [(2, 2, 1), (3, 3, 1)]
