"""Bugs of quotas: who is bound, what is forgotten, who waits in vain, what is never given back."""

from sharemesh.cluster.quota_table import QuotaTable
from sharemesh.cluster.view.cluster_state import ClusterState
from sharemesh.domain.quota.bounds import QuotaBounds
from sharemesh.domain.quota.names import QuotaName
from sharemesh.domain.quota.rates import RateAccount, RateAccounts
from sharemesh.domain.share_partition.cache.in_flight import InFlight
from sharemesh.domain.share_partition.cache.record_status import LockIndex
from sharemesh.domain.share_session import ShareSessions
from sharemesh.serve.process.quota_listener import QuotaListener
from sharemesh.share_leader.pacing import LeaderPacing
from sharemesh.share_leader.streaming.consume_stream import ConsumeStream
from sharemesh.throttling.held_quota import HeldQuota
from sharemesh.throttling.paced_rate import PacedRate
from tests.simulation.patching import Patches


def debts_are_forgotten_as_quotas_change(patch: Patches) -> None:
    """A new value begins with a full second, whatever was taken before (QUO-5)."""
    real = RateAccount.change

    def change(account, rate, now_ms):
        real(account, rate, now_ms)
        account._tokens = account.burst

    patch.setattr(RateAccount, "change", change)


def new_rates_hold_from_the_next_use(patch: Patches) -> None:
    """Who does not wait pays by the old value until it is looked at again (QUO-5)."""
    patch.setattr(RateAccounts, "change", lambda *_: None)


def acknowledgements_wait_for_quotas(patch: Patches) -> None:
    """A stream acknowledges when it may get records again (QUO-10)."""
    real = ConsumeStream._acknowledge

    async def acknowledge(stream, said):
        services = stream._services
        deadline_ms = services.environment.clock.now_ms() + 1_000
        await services.pacing.until_open(*stream._whose, deadline_ms)
        await real(stream, said)

    patch.setattr(ConsumeStream, "_acknowledge", acknowledge)


def the_default_wins(patch: Patches) -> None:
    """The default of a type holds also for who has a value of its own (QUO-2)."""
    real = QuotaBounds.limit

    def limit(bounds, name, entity):
        default = bounds._values[name.entity_type].get(None, {}).get(name)
        return real(bounds, name, entity) if default is None else default

    patch.setattr(QuotaBounds, "limit", limit)


def super_users_are_bound(patch: Patches) -> None:
    """The default of principals is everybody's (QUO-3)."""
    patch.setattr(
        QuotaTable,
        "limit",
        lambda table, name, entity: table._view.tables.quotas.limit(name, entity),
    )


def removed_quotas_stay(patch: Patches) -> None:
    """A process does not follow the removal of an entity's last value (QUO-2)."""
    real = ClusterState._quota

    def quota(state, rest, current, changes):
        if current is not None:
            real(state, rest, current, changes)

    patch.setattr(ClusterState, "_quota", quota)


def lifted_quotas_are_waited_for(patch: Patches) -> None:
    """Who waits hears nothing of a change (QUO-9)."""
    patch.setattr(LeaderPacing, "_changed", lambda _pacing: None)


def only_the_first_who_waits_is_called(patch: Patches) -> None:
    """The others are called when somebody takes again, or never (QUO-9)."""

    def call(rate, entity):
        rate._due.pop(entity, None)
        waiting = rate._waiting.get(entity)
        if waiting and rate.is_open(entity):
            first = next(iter(waiting))
            del waiting[first]
            first()

    patch.setattr(PacedRate, "_call", call)


def the_rate_of_a_group_is_each_principals(patch: Patches) -> None:
    """Each principal of a group gets records as fast as all together may (QUO-9)."""
    who = [""]
    real_account = PacedRate.account

    def account(rate, entity):
        name = f"{entity} for {who[0]}" if rate.name is QuotaName.RECORD_RATE else entity
        limit = rate.limit(entity)
        if limit is None:
            return real_account(rate, entity)
        return rate._accounts.of(name, limit, rate._clock.now_ms())

    def named(method):
        real = LeaderPacing.__dict__[method]

        def call(pacing, principal, *arguments):
            who[0] = principal
            return real(pacing, principal, *arguments)

        patch.setattr(LeaderPacing, method, call)

    patch.setattr(PacedRate, "account", account)
    for method in ("begin", "throttle_ms", "is_open", "may_get"):
        named(method)


def refused_requests_count(patch: Patches) -> None:
    """What was refused is taken all the same: who goes on sending never gets a turn (QUO-6)."""
    real = LeaderPacing.admit

    async def admit(pacing, principal, size):
        throttled = await real(pacing, principal, size)
        account = pacing._producing.account(principal)
        if throttled is not None and account is not None:
            account.end(0, size, pacing._clock.now_ms())
        return throttled

    patch.setattr(LeaderPacing, "admit", admit)


def everybody_has_one_account(patch: Patches) -> None:
    """One tenant's debt is another's (QUO-1)."""
    real = RateAccounts.of
    patch.setattr(
        RateAccounts, "of", lambda accounts, _name, rate, now_ms: real(accounts, "", rate, now_ms)
    )


def nothing_is_reserved(patch: Patches) -> None:
    """Those who take at the same time all take the same second (QUO-5)."""
    patch.setattr(RateAccount, "begin", lambda *_: None)
    real = RateAccount.end
    patch.setattr(
        RateAccount, "end", lambda account, _, taken, now_ms: real(account, 0, taken, now_ms)
    )


def records_of_ended_locks_count(patch: Patches) -> None:
    """What a member held until the lock's time was over counts as in flight for good (QUO-12)."""
    real = LockIndex.leave

    def leave(index, lock, record_count):
        tally = lock.tally
        if lock.fired:
            lock.tally = None
        real(index, lock, record_count)
        lock.tally = tally

    patch.setattr(LockIndex, "leave", leave)


def records_of_lost_partitions_count(patch: Patches) -> None:
    """What was held in a share partition that moved away counts for good (QUO-12)."""
    patch.setattr(InFlight, "stop_tallies", lambda _flight: None)


def room_is_not_reserved(patch: Patches) -> None:
    """Fetches at the same time all get the room that there is (QUO-12)."""

    def room(quota, principal):
        limit = quota._quotas.limit(QuotaName.RECORDS_IN_FLIGHT, principal)
        return None if limit is None else max(0, int(limit) - quota.held(principal))

    patch.setattr(HeldQuota, "room", room)


def freed_room_is_not_told(patch: Patches) -> None:
    """Who waits for room is not called when locks end (QUO-12)."""
    patch.setattr(HeldQuota, "_freed", lambda *_: None)


def closed_sessions_count(patch: Patches) -> None:
    """A session that ended is one of its principal's for good (QUO-12)."""
    real = ShareSessions._drop

    def drop(sessions, key):
        session = real(sessions, key)
        if session is not None:
            sessions._of_principal[session.principal] += 1
        return session

    patch.setattr(ShareSessions, "_drop", drop)


def refused_streams_count(patch: Patches) -> None:
    """A stream beyond the bound is refused, and counted as open for good (QUO-13)."""
    real = QuotaListener.__init__

    def begin(listener, *arguments):
        real(listener, *arguments)
        exceeded, streams = listener._streams.exceeded, listener._open_streams

        def counted(principal, count):
            why = exceeded(principal, count)
            if why:
                streams.add(principal)
            return why

        listener._streams.exceeded = counted

    patch.setattr(QuotaListener, "__init__", begin)
