"""Bugs of topics that are detached and attached again (KTP-10, KTP-19)."""

from sharemesh.cluster.store import topics
from sharemesh.group_coordinator.coordinator_context import ServiceLimits
from sharemesh.ports.broker_topics import BrokerTopics
from sharemesh.serve.roles import group_coordinator
from tests.simulation.patching import Patches


def states_of_detached_topics_go_at_once(patch: Patches) -> None:
    """Share coordinators have no grace: groups count on states that are gone."""
    patch.setattr(BrokerTopics, "states_kept_ms", 0)


def groups_forget_detached_topics_at_once(patch: Patches) -> None:
    """Group coordinators have no grace: groups begin anew."""
    patch.setattr(group_coordinator, "_limits", lambda _around: ServiceLimits())


def leader_epochs_begin_again_after_detaching(patch: Patches) -> None:
    """A topic that was detached leaves nothing: its leaders count from 1 again."""
    real = topics.detach_topic

    async def detach_topic(coordination, view, name, *, kept):
        return await real(coordination, view, name, kept=False)

    patch.setattr(topics, "detach_topic", detach_topic)
