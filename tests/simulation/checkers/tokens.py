"""Fencing tokens: each later grant of an offset has a greater one, and they keep a store right."""

from collections.abc import Mapping
from typing import NamedTuple

from sharemesh.client.records import ConsumerRecord, FencingToken
from sharemesh.share_leader.requests.acquisition import FetchAcquisition
from tests.simulation.patching import Patches
from tests.simulation.world import World


class Place(NamedTuple):
    """One record for one group."""

    group: str
    partition: str
    offset: int


class TokenChecker:
    """Looks at each grant as it leaves a leader: its token, and its place in the true order."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._grants = 0
        self._last: dict[Place, FencingToken] = {}
        self._orders: dict[tuple[str, Place, int, int], int] = {}

    def install(self, patches: Patches) -> None:
        """Look on."""
        real = FetchAcquisition._acquire

        def acquire(acquisition, runner, result, order, remaining):
            taken = real(acquisition, runner, result, order, remaining)
            if taken is not None and taken.ranges:
                self._granted(runner, order.member_id, taken)
            return taken

        patches.setattr(FetchAcquisition, "_acquire", acquire)

    def order_of(self, member: str, place: Place, record: ConsumerRecord) -> int:
        """Return when a delivery was granted, among all grants; of two alike the later."""
        return self._orders[member, place, record.leader_epoch, record.delivery_count]

    def _granted(self, runner, member, taken) -> None:
        self._grants += 1
        key = runner.key
        name = f"{self._world.topic_names[key.topic_id]}/{key.partition}"
        for run in taken.ranges:
            token = FencingToken(
                taken.state_epoch, taken.leader_epoch, taken.acquisition_number, run.delivery_count
            )
            for offset in range(run.first_offset, run.last_offset + 1):
                place = Place(key.group_id, name, offset)
                self._orders[member, place, token.leader_epoch, token.delivery_count] = self._grants
                self._judge(place, token)

    def _judge(self, place: Place, token: FencingToken) -> None:
        """What a deposed leader still grants is an earlier delivery, whenever it comes."""
        world, last = self._world, self._last.get(place)
        world.event_log.counters["tokens judged"] += 1
        if last is not None and token.leader_epoch < last.leader_epoch:
            return
        if last is not None and token <= last:
            world.event_log.violation(
                world.now_s, f"the token {token} of {place} is not above the one before, {last}"
            )
        self._last[place] = token


class GuardedStore:
    """A store of applications: one row a record, written only where no later delivery has."""

    def __init__(self, world: World, tokens: TokenChecker) -> None:
        self._world = world
        self._tokens = tokens
        self._rows: dict[Place, str] = {}
        self._latest: dict[Place, int] = {}

    def write(self, group: str, member: str, record: ConsumerRecord) -> bool:
        """Write as a handler does; return whether it took effect. Judges that it may."""
        counters = self._world.event_log.counters
        place = Place(group, f"{record.topic}/{record.partition}", record.offset)
        if not accepts(self._rows, place, str(record.fencing_token)):
            counters["writes that a token refused"] += 1
            return False
        order = self._tokens.order_of(member, place, record)
        latest = self._latest.get(place, order)
        if order < latest:
            self._world.event_log.violation(
                self._world.now_s, f"stale effect on {place}: grant {order} wrote after {latest}"
            )
        self._latest[place] = max(order, latest)
        self._rows[place] = str(record.fencing_token)
        counters["effects judged"] += 1
        return True


def accepts(rows: Mapping[Place, str], place: Place, token: str) -> bool:
    """Whether a row may be written: what is there has no greater token."""
    return rows.get(place, "") <= token
