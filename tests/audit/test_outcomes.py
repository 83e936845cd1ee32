"""A change is recorded by its outcome, however it ends (AUD-4); bounds are refusals (AUD-3)."""

import asyncio
from dataclasses import replace

import pytest

from sharemesh import methods
from sharemesh.admin.topic_stores import StoredTopics
from sharemesh.admin.topics import TopicAdmin
from sharemesh.audit import classes
from sharemesh.audit.events import RESOURCES_MAX
from sharemesh.audit.listener import AuditedListener, refused_call
from sharemesh.authorization.access import Access
from sharemesh.authorization.refusals import HEARER, Refusal, hear, hear_bound, hear_granted
from sharemesh.domain.errors import BoundReachedError, ErrorCode, RefusedError
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.testing.network import LocalNetwork
from sharemesh.v1 import admin_pb2 as admin
from sharemesh.v1 import group_coordinator_pb2 as group
from sharemesh.v1 import record_log_pb2 as record_log
from tests.audit.events import lines, trail

ADDRESS = "here:1"
DELETE = admin.DeleteTopicsRequest(names=["orders", "payments"])


@pytest.fixture
def log():
    return trail()


@pytest.fixture
async def serving(log):
    """Return what offers a method, and then asks it."""
    network = LocalNetwork()
    caller = network.caller("User:root")
    listener = AuditedListener(network.listener(ADDRESS), log, bytes.hex)

    def offer(method, handler):
        listener.offer(method, handler)

        def ask(request, **options):
            return caller.call(method, request, to=ADDRESS, **options)

        return ask

    yield offer
    await caller.close()


def names(line):
    return [each["name"] for each in line["resources"]]


async def test_entries_with_the_same_outcome_are_one_line(serving, log):
    async def handler(request, _context):
        response = admin.DeleteTopicsResponse()
        for code in (0, 3, 7, 29, 0, 3, 16):
            response.topics.add(error_code=code)
        return response

    ask = serving(methods.DELETE_TOPICS, handler)
    await ask(admin.DeleteTopicsRequest(names=list("abcdefg")))
    found = {(each["decision"], each.get("error")): names(each) for each in lines(log)}
    assert found == {
        ("done", None): ["a", "e"],
        ("failed", "UNKNOWN_TOPIC_OR_PARTITION"): ["b", "f"],
        ("unknown", "REQUEST_TIMED_OUT"): ["c"],
    }, "a missing right has its own line (AUD-2); another process's is none"


async def test_records_are_deleted_of_a_topic_that_is_named_by_id_or_by_name(serving, log):
    async def handler(_request, _context):
        return record_log.DeleteRecordsResponse(partitions=[{}, {}])

    ask = serving(methods.DELETE_RECORDS, handler)
    await ask(
        record_log.DeleteRecordsRequest(
            partitions=[{"topic_name": "orders"}, {"topic_id": b"\7" * 16, "topic_name": "other"}]
        )
    )
    [found] = lines(log)
    assert names(found) == ["orders", "07" * 16]


async def test_a_cancelled_change_keeps_its_names(serving, log):
    began, ended = asyncio.Event(), asyncio.Event()

    async def handler(_request, _context):
        hear_granted()
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    ask = serving(methods.DELETE_TOPICS, handler)
    asking = asyncio.ensure_future(ask(DELETE))
    await began.wait()
    asking.cancel()
    await asyncio.wait([asking])
    await ended.wait()
    [found] = lines(log)
    assert (found["decision"], found["error"]) == ("unknown", "CANCELLED")
    assert (names(found), found["principal"]) == (["orders", "payments"], "User:root")


async def test_a_change_whose_deadline_passed_keeps_its_names(serving, log):
    async def handler(_request, _context):
        hear_granted()
        await asyncio.Event().wait()

    ask = serving(methods.DELETE_TOPICS, handler)
    with pytest.raises(CallFailedError) as raised:
        await ask(DELETE, timeout_ms=20)
    assert raised.value.failure is Failure.DEADLINE_EXCEEDED
    [found] = lines(log)
    assert (found["decision"], names(found)) == ("unknown", ["orders", "payments"])


@pytest.mark.parametrize(
    ("error", "decision", "name"),
    [
        (ValueError("secret"), "unknown", "INTERNAL"),
        (CallFailedError(Failure.UNAVAILABLE, "lost"), "unknown", "UNAVAILABLE"),
        (CallFailedError(Failure.INVALID_ARGUMENT, "too many"), "failed", "INVALID_ARGUMENT"),
        (CallFailedError(Failure.PERMISSION_DENIED, "no"), None, None),
        (CallFailedError(Failure.RESOURCE_EXHAUSTED, "no"), None, None),
    ],
)
async def test_a_handler_that_fails_has_a_line_without_its_words(
    serving, log, error, decision, name
):
    async def handler(_request, _context):
        hear_granted()
        raise error

    ask = serving(methods.DELETE_TOPICS, handler)
    with pytest.raises(CallFailedError):
        await ask(DELETE)
    found = lines(log)
    assert [(each["decision"], each["error"]) for each in found] == (
        [(decision, name)] if decision else []
    )
    assert "secret" not in str(found)


async def test_the_offsets_of_a_group_have_the_error_of_their_topic_or_of_the_group(serving, log):
    answers = []

    async def handler(_request, _context):
        return answers.pop()

    ask = serving(methods.ALTER_SHARE_GROUP_OFFSETS, handler)
    request = group.AlterShareGroupOffsetsRequest(group_id="billing")
    for topic in ("orders", "payments"):
        request.topics.add(topic_name=topic).partitions.add(partition=2, start_offset=15)
    answers.append(group.AlterShareGroupOffsetsResponse(error_code=68))
    await ask(request)
    [refused] = lines(log)
    assert (refused["decision"], refused["error"]) == ("failed", "NON_EMPTY_GROUP")
    assert [each["change"] for each in refused["resources"]] == [
        "start offsets in orders: 2: 15",
        "start offsets in payments: 2: 15",
    ]
    answer = group.AlterShareGroupOffsetsResponse()
    answer.topics.add().partitions.add()
    answer.topics.add().partitions.add(error_code=3)
    answers.append(answer)
    await ask(request)
    assert [(each["decision"], names(each)) for each in lines(log)] == [
        ("done", ["billing"]),
        ("failed", ["billing"]),
    ]


def topic_admin(*allowed, waits=True):
    """Return topics' admin service for a principal that may delete these topics alone."""

    class Table:
        def allows(self, _principal, _operation, _resource, name):
            return name in allowed

    class View:
        async def wait_for(self, _predicate, *, timeout_ms):
            if waits:
                await asyncio.Event().wait()

        def topic_named(self, _name):
            return None

    return TopicAdmin(StoredTopics(None, View(), None), View(), Access(Table()))


@pytest.mark.parametrize("wanted", [["payroll", "payroll"], ["secret"] * 3 + ["payroll"]])
async def test_a_name_that_is_sent_twice_is_never_done_without_a_right(serving, log, wanted):
    """AUD-4: what the answer says of a name is said of no other."""

    ask = serving(methods.DELETE_TOPICS, topic_admin(waits=False).delete)
    await ask(admin.DeleteTopicsRequest(names=wanted))
    assert {each["kind"] for each in lines(log)} == {"refusal"}


async def test_an_answer_that_lacks_outcomes_is_unknown_and_said(serving, log, caplog):
    granted = []

    async def handler(_request, _context):
        if granted:
            hear_granted()
        return admin.DeleteTopicsResponse(topics=[admin.TopicResult(name="orders")] * len(granted))

    ask = serving(methods.DELETE_TOPICS, handler)
    await ask(DELETE)
    assert not lines(log), "without a right nothing became of it"
    granted.append(True)
    await ask(DELETE)
    found = [(each["decision"], names(each)) for each in lines(log)]
    assert found == [("done", ["orders"]), ("unknown", ["payments"])]
    assert "lacks 1 outcomes" in caplog.text


async def cancelled(ask, request):
    """Ask, and go away once the handler waits for something, or before it has begun tasks."""
    for turns in range(1, 12):
        asking = asyncio.ensure_future(ask(request))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])


async def test_whoever_may_do_nothing_leaves_refusals_alone_when_it_goes_away(serving, log):
    """AUD-4: nothing that was asked for has begun."""
    ask = serving(methods.DELETE_TOPICS, topic_admin().delete)
    await cancelled(ask, DELETE)
    found = lines(log)
    assert {each["kind"] for each in found} == {"refusal"}
    assert {name for each in found for name in names(each)} == {"orders", "payments"}


async def test_what_was_refused_is_not_unknown_beside_what_had_begun(serving, log):
    await cancelled(serving(methods.DELETE_TOPICS, topic_admin("payments").delete), DELETE)
    changes = [each for each in lines(log) if each["kind"] == "change"]
    assert changes
    assert all(names(each) == ["payments"] for each in changes)


@pytest.mark.parametrize(
    "method", [methods.ALTER_SHARE_GROUP_OFFSETS, methods.DELETE_SHARE_GROUP_OFFSETS]
)
async def test_offsets_of_topics_that_were_refused_are_not_unknown(serving, log, method):
    """AUD-4: the right on the group is granted, that on one topic is not."""

    async def handler(_request, context):
        hear_granted()
        hear(Refusal(context.principal, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "read", "topic", "a"))
        raise CallFailedError(Failure.UNAVAILABLE, "lost")

    ask = serving(method, handler)
    for topics in (["a"], ["a", "b"]):
        request = method.request(group_id="billing")
        if method is methods.ALTER_SHARE_GROUP_OFFSETS:
            request.topics.extend(group.AlterOffsetTopic(topic_name=each) for each in topics)
        else:
            request.topic_names.extend(topics)
        with pytest.raises(CallFailedError):
            await ask(request)
    [found] = [each for each in lines(log) if each["kind"] == "change"]
    [named] = found["resources"]
    assert "offsets in b" in named["change"]


async def test_no_more_is_named_than_a_line_has_before_rights_are_looked_at(
    serving, log, monkeypatch
):
    """AUD-5: 50,000 entries are 100 kB on the wire."""
    found = classes.AUDIT_CLASSES[methods.CREATE_ACLS.name]
    named = []

    def counting(part, request, topic_name):
        named.append(part)
        return found.named(part, request, topic_name)

    async def handler(_request, _context):
        raise CallFailedError(Failure.INVALID_ARGUMENT, "too many")

    monkeypatch.setitem(
        classes.AUDIT_CLASSES, methods.CREATE_ACLS.name, replace(found, named=counting)
    )
    ask = serving(methods.CREATE_ACLS, handler)
    with pytest.raises(CallFailedError):
        await ask(admin.CreateAclsRequest(rules=[admin.AclRule()] * 50_000))
    [line] = lines(log)
    assert (len(named), line["more_resources"]) == (RESOURCES_MAX, 50_000 - RESOURCES_MAX)


async def test_a_change_of_many_names_them_all_in_several_lines(serving, log):
    """AUD-5: what is done is never a number only."""

    async def handler(request, _context):
        results = [group.DeletedGroup(group_id=each) for each in request.group_ids]
        for each in results[::3]:
            each.error_code = 68
        return group.DeleteGroupsResponse(results=results)

    wanted = [f"g{number}" for number in range(201)]
    await serving(methods.DELETE_GROUPS, handler)(group.DeleteGroupsRequest(group_ids=wanted))
    found = lines(log)
    done = [each for each in found if each["decision"] == "done"]
    assert [len(each["resources"]) for each in done] == [50, 50, 34]
    told = [name for each in done for name in names(each)]
    assert told == [each for n, each in enumerate(wanted) if n % 3]
    [failed] = [each for each in found if each["decision"] == "failed"]
    assert (len(failed["resources"]), failed["more_resources"]) == (50, 17)


async def test_a_table_that_fails_refuses_no_call(serving, log, monkeypatch, caplog):
    def broken(*_):
        raise KeyError("x")

    async def handler(_request, _context):
        return admin.DeleteTopicsResponse()

    found = classes.AUDIT_CLASSES[methods.DELETE_TOPICS.name]
    monkeypatch.setitem(
        classes.AUDIT_CLASSES, methods.DELETE_TOPICS.name, replace(found, named=broken)
    )
    ask = serving(methods.DELETE_TOPICS, handler)
    await ask(DELETE)
    assert "cannot name" in caplog.text


async def test_a_refusal_in_a_task_that_a_call_began_is_heard(serving, log):
    """AUD-2: rights that are taken away later."""
    later = []

    async def refuse(principal):
        hear(Refusal(principal, ErrorCode.GROUP_AUTHORIZATION_FAILED, "read", "group", "g"))

    async def handler(_request, context):
        later.append(asyncio.ensure_future(refuse(context.principal)))
        later.append(asyncio.ensure_future(refuse("User:other")))
        return admin.MetadataResponse()

    ask = serving(methods.METADATA, handler)
    await ask(admin.MetadataRequest())
    await asyncio.gather(*later)
    first, second = lines(log)
    assert (first["rpc"], first["principal"]) == ("Admin/Metadata", "User:root")
    assert (second["rpc"], second["peer"]) == ("", ""), "not this call's"
    hear(Refusal("User:root", ErrorCode.GROUP_AUTHORIZATION_FAILED))  # outside of any call
    assert HEARER.get() is None
    assert not lines(log)


async def test_a_bound_that_is_met_is_a_refusal_and_other_errors_are_none(serving, log):
    """AUD-3."""

    async def handler(_request, context):
        hear_bound(RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, "no"), context.principal)
        hear_bound(
            BoundReachedError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, "no"), context.principal
        )
        return admin.MetadataResponse()

    ask = serving(methods.METADATA, handler)
    await ask(admin.MetadataRequest())
    [found] = lines(log)
    assert (found["error"], found["error_code"]) == ("SHARE_SESSION_LIMIT_REACHED", 133)
    assert found["kind"] == "refusal"


def test_what_a_transport_refuses_has_a_line(log):
    refused_call(log)("Admin/Metadata", "", "ipv4:1.2.3.4:5", "UNAUTHENTICATED")
    [found] = lines(log)
    assert (found["error"], found["error_code"]) == ("UNAUTHENTICATED", 0)
    assert (found["rpc"], found["principal"]) == ("Admin/Metadata", "")
