"""Who may write no topic is told so without holding up others (spec BND-20)."""

import pytest

from sharemesh.authorization.refusals import HEARER, Refusal
from sharemesh.authorization.slices import Slices
from sharemesh.cluster.store.acl_rules import AclRule, Pattern, Permission, RuleSet
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.ports.cluster import TopicInfo
from sharemesh.share_leader.requests.access import LeaderAccess
from tests.clocks import LoopClock
from tests.turns import holds_no_turn


class _ManyTopics:
    """A view of 20,000 topics."""

    def __init__(self):
        self._topics = tuple(
            TopicInfo(f"{n:05d}-{'x' * 200}", n.to_bytes(16, "big"), 1, {}) for n in range(20_000)
        )

    def topics(self):
        return self._topics


class _Hearer:
    granted = False

    def __init__(self, heard):
        self._heard = heard

    def refused(self, refusal):
        self._heard.append(refusal)


async def test_a_producer_id_is_refused_in_slices_bnd_20():
    rules = RuleSet(
        AclRule(
            "User:*",
            Permission.DENY,
            Operation.WRITE,
            ResourceType.TOPIC,
            f"{number:05d}"[: 1 + number % 5],
            Pattern.PREFIXED,
        )
        for number in range(10_000)
    )
    access = LeaderAccess(rules, _ManyTopics())

    async def asked():
        with pytest.raises(RefusedError) as refused:
            await access.some_topic("User:eve", Slices(LoopClock()))
        assert refused.value.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    await holds_no_turn(asked)


async def test_the_audit_log_is_told_who_lacks_which_right_for_a_producer_id_aud_2():
    heard = []
    access = LeaderAccess(RuleSet(()), _ManyTopics())
    token = HEARER.set(_Hearer(heard))
    try:
        with pytest.raises(RefusedError) as refused:
            await access.some_topic("User:eve", Slices(LoopClock()))
    finally:
        HEARER.reset(token)
    assert heard == [
        Refusal("User:eve", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "write", "topic", "*")
    ]
    assert refused.value.message == (
        "User:eve is not authorized for WRITE on any topic, and a producer id needs it on one; an "
        "administrator can allow it with: sharemesh acls add --principal User:eve --operation "
        "write --topic NAME"
    )
