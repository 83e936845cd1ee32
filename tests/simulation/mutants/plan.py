"""Bugs planted by patching the product for one run; the simulation must see each of them."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance import test_planted_bugs as shipped
from tests.domain.share_partition import test_mutants as domain
from tests.simulation.mutants import (
    compaction,
    delays,
    deliveries,
    detaching,
    hand_overs,
    held,
    logs,
    pauses,
    quotas,
    rights,
    stamped_logs,
    states,
    tokens,
    unseen,
    waits,
    windows,
)
from tests.simulation.patching import Patches

Mutant = Callable[[Patches], None]
PLAN: dict[str, tuple[Mutant, ...]] = {
    "mixed": (
        logs.lost_fsync,
        logs.nobody_looks_for_fences,
        logs.producers_are_forgotten,
        deliveries.locks_expire_early,
        deliveries.commit_sync_overruns,
        logs.predecessor_is_truncated,
        states.delivery_count_is_lost_on_failover,
        deliveries.start_offset_passes_a_hole,
        states.tail_after_a_generation_is_skipped,
        states.the_last_assignment_is_forgotten,
        hand_overs.what_was_handed_over_once_is_away_for_ever,
    ),
    "short": (
        deliveries.explain_says_locked_records_are_deliverable,
        deliveries.explain_says_waiting_records_are_finished,
        deliveries.explain_does_not_know_the_start_offset,
        deliveries.redeliveries_are_not_counted,
        domain.reject_is_forgotten,
        domain.records_in_transition_are_delivered,
        domain.released_records_are_never_found,
        domain.new_batches_overlap_after_recovery,
        domain.start_offset_is_not_guarded,
        shipped.a_reset_keeps_the_group_epoch,
        deliveries.explain_says_it_is_initializing,
        deliveries.explain_does_not_see_who_waits,
        deliveries.explain_says_accepted_of_what_was_archived,
    ),
    "crowded": (
        deliveries.timer_is_not_cancelled,
        waits.dead_locks_are_waited_for,
        deliveries.locks_last_too_long,
        deliveries.renew_resurrects,
        deliveries.the_in_flight_limit_is_not_kept,
        domain.anyone_may_acknowledge,
        domain.session_release_lowers_the_count,
        domain.release_forgets_per_offset_state,
        domain.release_ignores_the_limit,
        shipped.waiters_are_told_under_the_lock,
        shipped.a_cancelled_fetch_keeps_the_lock,
        shipped.a_lost_session_is_never_replaced,
    ),
    "stalled": (
        domain.an_uncounted_release_counts,
        unseen.clients_never_hand_back,
        unseen.stalled_members_are_served,
        unseen.clients_hand_out_what_they_have_lost,
    ),
    "crashing": (
        logs.acknowledged_before_durable,
        states.finished_records_are_opened_again,
        states.keys_are_cut_at_the_first_colon,
        domain.window_is_forgotten,
        logs.a_taken_log_begins_at_its_segment,
        states.epochs_of_groups_go_back,
    ),
    "usurped": (
        logs.fences_are_looked_for_before_the_sync_only,
        logs.jobs_outlive_their_shard,
    ),
    "refused": (deliveries.a_refusal_ends_the_lock,),
    "trimmed": (
        domain.expiry_skips_parts,
        domain.complete_count_ignores_the_start,
        domain.log_start_keeps_the_count,
        domain.complete_count_is_not_rolled_back,
        domain.roll_back_ignores_a_fired_lock,
    ),
    "delayed": (
        states.state_writer_is_not_checked,
        states.epochs_begin_again,
        states.a_late_delete_ends_the_next_life,
        states.archived_records_count_again,
        shipped.a_lower_start_offset_wins,
        logs.a_stream_ends_unheard,
    ),
    "pruned": (
        logs.readers_pass_the_committed_end,
        states.pruning_does_not_wait_for_generations,
        states.snapshots_lose_what_waits,
        states.snapshots_forget_what_was_archived,
    ),
    "delayed_retry": (
        delays.delays_are_half_as_long,
        delays.delays_are_not_written,
        delays.delays_are_not_read,
        delays.a_commit_forgets_the_delay,
        delays.delayed_hand_backs_count,
        delays.hand_backs_have_no_delay,
        delays.what_was_delayed_is_not_found,
    ),
    "stored": (
        tokens.stores_do_not_look_at_tokens,
        tokens.acquisitions_have_no_number,
        tokens.tokens_begin_again_with_a_leader,
    ),
    "held": (
        held.only_the_first_part_is_read,
        held.parts_are_taken_without_the_first,
        windows.held_records_do_not_count,
        windows.what_is_finished_counts_too,
    ),
    "paused": (
        pauses.paused_groups_are_served,
        pauses.pauses_are_heard_at_a_start_only,
        pauses.locks_stand_still_in_a_pause,
        pauses.explain_does_not_know_pauses,
    ),
    "handed_over": (
        hand_overs.the_old_leader_decides_on,
        hand_overs.any_later_leader_gets_the_locks,
        hand_overs.locks_leave_while_writes_are_out,
        hand_overs.the_time_that_is_left_is_forgotten,
        hand_overs.renewals_forget_where_a_lock_is_from,
        hand_overs.clients_drop_what_was_handed_over,
        hand_overs.clients_stay_with_a_leader_that_had_no_locks,
        hand_overs.any_end_of_a_session_ends_the_way,
    ),
    "leaderless": (logs.a_claim_of_unknown_outcome_is_left,),
    "revoked": (
        rights.rights_are_not_checked_after_a_wait,
        rights.revoked_streams_stay_open,
        rights.assignments_are_pushed_whatever_was_revoked,
        rights.members_are_anybodys,
        rights.share_sessions_are_anybodys,
    ),
    "tenants": (
        quotas.debts_are_forgotten_as_quotas_change,
        quotas.new_rates_hold_from_the_next_use,
        quotas.acknowledgements_wait_for_quotas,
        quotas.the_default_wins,
        quotas.super_users_are_bound,
        quotas.removed_quotas_stay,
        quotas.lifted_quotas_are_waited_for,
        quotas.only_the_first_who_waits_is_called,
        quotas.the_rate_of_a_group_is_each_principals,
        quotas.refused_requests_count,
        quotas.everybody_has_one_account,
        quotas.nothing_is_reserved,
        quotas.records_of_ended_locks_count,
        quotas.records_of_lost_partitions_count,
        quotas.room_is_not_reserved,
        quotas.freed_room_is_not_told,
        quotas.closed_sessions_count,
        quotas.refused_streams_count,
    ),
    "latest": (shipped.added_partitions_start_at_the_end,),
    "unreadable": (
        waits.a_failed_read_is_not_heard,
        waits.a_refused_partition_ends_the_wait,
        waits.a_failed_initialization_ends_every_wait,
    ),
}
"""Which workload must catch what: the one in which its situation is common."""

LATER: dict[Mutant, int] = {
    logs.nobody_looks_for_fences: 3,
    states.tail_after_a_generation_is_skipped: 7,
    states.the_last_assignment_is_forgotten: 9,
    hand_overs.what_was_handed_over_once_is_away_for_ever: 24,
    deliveries.renew_resurrects: 16,
    domain.anyone_may_acknowledge: 3,
    shipped.waiters_are_told_under_the_lock: 9,
    shipped.a_lost_session_is_never_replaced: 2,
    unseen.clients_hand_out_what_they_have_lost: 5,
    logs.acknowledged_before_durable: 4,
    logs.fences_are_looked_for_before_the_sync_only: 4,
    domain.complete_count_is_not_rolled_back: 11,
    domain.roll_back_ignores_a_fired_lock: 11,
    logs.a_stream_ends_unheard: 2,
    logs.readers_pass_the_committed_end: 2,
    states.pruning_does_not_wait_for_generations: 9,
    tokens.stores_do_not_look_at_tokens: 2,
    tokens.tokens_begin_again_with_a_leader: 2,
    windows.what_is_finished_counts_too: 4,
    hand_overs.the_old_leader_decides_on: 2,
    hand_overs.clients_drop_what_was_handed_over: 3,
    hand_overs.clients_stay_with_a_leader_that_had_no_locks: 42,
    hand_overs.any_end_of_a_session_ends_the_way: 71,
    logs.a_claim_of_unknown_outcome_is_left: 3,
    rights.rights_are_not_checked_after_a_wait: 4,
    rights.revoked_streams_stay_open: 2,
    rights.assignments_are_pushed_whatever_was_revoked: 4,
    quotas.only_the_first_who_waits_is_called: 3,
    quotas.nothing_is_reserved: 2,
    quotas.records_of_lost_partitions_count: 2,
    quotas.room_is_not_reserved: 2,
    waits.a_failed_initialization_ends_every_wait: 2,
}
"""Seeds that catch those which the first does not; if the stated one does not, others follow."""

PLAN_ON_KAFKA: dict[str, dict[Mutant, int]] = {
    "usurped": {
        stamped_logs.writers_ignore_their_stamps: 3,
        stamped_logs.units_are_stamped_anew_unread: 1,
        stamped_logs.loads_end_before_the_fence: 1,
        stamped_logs.looks_are_not_renewed: 1,
        stamped_logs.leaders_do_not_look: 1,
    },
    "crashing": {
        stamped_logs.reads_begin_one_too_far: 1,
        stamped_logs.units_are_confirmed_as_they_are_sent: 13,
        stamped_logs.readers_ignore_stamps: 4,
    },
    "compacted": {
        domain.holes_of_the_log_are_not_passed: 61,
        domain.idle_start_offsets_stay: 35,
        compaction.holes_are_read_for_ever: 3,
        compaction.passed_holes_are_not_stored: 13,
        compaction.gaps_are_not_acknowledged: 1,
    },
    "detached": {
        detaching.states_of_detached_topics_go_at_once: 1,
        detaching.groups_forget_detached_topics_at_once: 1,
        detaching.leader_epochs_begin_again_after_detaching: 2,
    },
    "lossy": {
        stamped_logs.losses_are_not_looked_for: 1,
        stamped_logs.ends_that_only_produces_named_stay: 6,
        stamped_logs.epochs_begin_nowhere: 21,
        stamped_logs.lost_units_are_not_missed: 1,
    },
    "pruned": {
        stamped_logs.the_newest_unit_is_deleted: 2,
    },
}
"""The same on the engine ``kafka``, with a seed that catches it; if it does not, others follow."""


@dataclass(frozen=True, slots=True)
class PlantedIn:
    """Where a bug must be caught.

    Attributes:
        workload: In which workload.
        engine: On which engine.
        seed: One that caught it, and is tried before all others.
    """

    workload: str
    engine: str = "embedded"
    seed: int = 1


MUTANTS: dict[str, Mutant] = {
    mutant.__name__: mutant
    for plan in (PLAN, PLAN_ON_KAFKA)
    for mutants in plan.values()
    for mutant in mutants
}
PLANTED_IN = {
    **{
        bug.__name__: PlantedIn(name, seed=LATER.get(bug, 1))
        for name, mutants in PLAN.items()
        for bug in mutants
    },
    **{
        bug.__name__: PlantedIn(name, "kafka", seed)
        for name, mutants in PLAN_ON_KAFKA.items()
        for bug, seed in mutants.items()
    },
}
