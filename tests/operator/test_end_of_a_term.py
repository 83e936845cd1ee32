"""The end of a term: what was under way in it ends, and nothing more begins."""

import asyncio
from random import Random

import pytest

from sharemesh.telemetry.telemetry import without_export
from sharemesh_operator.cluster.engine import Engine
from sharemesh_operator.cluster.kube import RetryLaterError
from sharemesh_operator.cluster.work_queue import Key
from sharemesh_operator.settings import OperatorSettings
from tests.clocks import ManualClock
from tests.operator.bodies import topic


class SlowCleanUp:
    """A reconciler whose clean-up does not end."""

    def __init__(self):
        self.began = asyncio.Event()

    def name_of(self, body):
        return body["metadata"]["name"]

    async def finalize(self, body):
        self.began.set()
        await asyncio.Event().wait()


@pytest.fixture
def engine():
    settings = OperatorSettings(
        namespace="queues", identity="op-0", etcd_endpoints=("http://e",), image="i:1"
    )
    return Engine(None, settings, ManualClock(), Random(1), print, without_export(lambda: 0))


async def test_a_clean_up_that_is_under_way_ends_before_another_replica_leads(engine):
    engine._named["ShareTopic"] = slow = SlowCleanUp()
    cleaning = asyncio.create_task(engine.finalize("ShareTopic", topic(), waited_s=0))
    await slow.began.wait()
    await engine.close()
    assert cleaning.cancelled()
    with pytest.raises(RetryLaterError, match="another replica"):
        await engine.finalize("ShareTopic", topic(), waited_s=0)


async def test_what_kopf_still_hears_after_the_end_is_no_work(engine):
    engine.seen("ShareTopic", topic(), gone=False)
    engine.queue.drop(Key("ShareTopic", "orders"))
    await engine.close()
    engine.seen("ShareTopic", topic(), gone=False)
    engine.owned_seen({"metadata": {"labels": {"sharemesh.io/cluster": "main"}}})
    assert Key("ShareTopic", "orders") not in engine.queue._due


class SlowConnection:
    """A connection to a cluster that takes its time to end."""

    def __init__(self):
        self.began, self.may_end = asyncio.Event(), asyncio.Event()
        self.is_closed = False

    async def close(self):
        self.began.set()
        await self.may_end.wait()
        self.is_closed = True


async def test_a_cluster_that_is_being_left_is_left_also_if_the_term_ends_meanwhile(engine):
    engine.meshes._open["main"] = (None, connection := SlowConnection())
    leaving = asyncio.create_task(engine.meshes.close("main"))
    await connection.began.wait()
    leaving.cancel()
    ending = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    assert not ending.done(), "its member and its controller are the old leader's as yet"
    connection.may_end.set()
    await ending
    assert connection.is_closed
