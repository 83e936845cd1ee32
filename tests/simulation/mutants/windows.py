"""Bugs of the limit that counts locks: what it counts."""

from sharemesh.domain.share_partition.cache.in_flight import UNLIMITED, InFlight
from tests.simulation.patching import Patches


def held_records_do_not_count(patch: Patches) -> None:
    """Members get what they ask for, however much they hold."""
    patch.setattr(InFlight, "room", property(lambda flight: UNLIMITED))
    patch.setattr(InFlight, "lock_room", property(lambda flight: UNLIMITED))


def what_is_finished_counts_too(patch: Patches) -> None:
    """The limit counts the span of offsets, whatever the group says."""

    def configure(flight, config):
        flight.config, flight.counts_locks = config, False

    patch.setattr(InFlight, "configure", configure)
