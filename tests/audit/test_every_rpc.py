"""Every RPC has an audit class (AUD-1), and what it is refused is in the log (AUD-2)."""

import inspect

import pytest

from sharemesh.audit.classes import AUDIT_CLASSES, Recorded, Unrecorded
from sharemesh.audit.listener import AuditedListener
from sharemesh.authorization.permissions import PERMISSIONS, Open
from sharemesh.methods import METHODS, READS, StreamingKind
from sharemesh.ports.authorizer import Operation
from sharemesh.v1 import admin_pb2 as admin
from tests.audit.events import lines, trail
from tests.authorization import world as worlds
from tests.authorization.test_nothing_is_told import (
    FAMILIES,
    HERE,
    SECRET,
    Asked,
    answer,
)
from tests.authorization.test_nothing_is_told import world as world  # noqa: PLC0414
from tests.authorization.world import ROOT

AUDITED = "audited:1"
CHANGING = {Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS}
BY_NAME = {method.name: method for method in METHODS}


def named(found, request):
    return [found.named(each, request, bytes.hex) for each in found.parts(request)]


@pytest.fixture
def audited(world, monkeypatch):
    """The services of the world's one process, offered once more, behind the audit log."""
    log = trail()
    listener = AuditedListener(
        world.network.listener(AUDITED),
        log,
        lambda topic_id: SECRET if topic_id == world.secret else topic_id.hex(),
    )
    for service in world.node.roles._services:
        service.offer(listener)
    monkeypatch.setattr(worlds, "ADDRESS", AUDITED)
    return log


def refusals(log, method):
    """Return the refusals; an acknowledgement has opened its session by a fetch before."""
    before = "ShareLeader/ShareFetch" if method.name == "ShareLeader/ShareAcknowledge" else ""
    found = [each for each in lines(log, ending=True) if each["kind"] == "refusal"]
    return [each for each in found if each["rpc"] != before]


def test_every_rpc_has_an_audit_class():
    assert set(AUDIT_CLASSES) == set(BY_NAME)
    for name, found in AUDIT_CLASSES.items():
        if isinstance(found, Unrecorded):
            assert found.reason
        else:
            assert BY_NAME[name].kind is StreamingKind.UNARY


def test_what_needs_a_right_to_change_something_is_a_change():
    for name, permissions in PERMISSIONS.items():
        rights = () if isinstance(permissions, Open) else permissions
        asked = {each.operation for each in rights}
        asked |= {each.instead[0] for each in rights if each.instead is not None}
        if asked & CHANGING:
            found = AUDIT_CLASSES[name]
            assert isinstance(found, Recorded), name
            assert not found.is_look, name


def test_an_rpc_without_a_class_cannot_be_offered(monkeypatch):
    method = BY_NAME["Admin/CreateTopics"]
    monkeypatch.delitem(AUDIT_CLASSES, method.name)
    with pytest.raises(KeyError):
        AuditedListener(None, trail(), bytes.hex).offer(method, None)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
async def test_every_refusal_is_in_the_log_with_who_asked_for_what(world, audited, family):
    for asked in family(world):
        await answer(world, asked, asked.existing)
        found = refusals(audited, asked.method)
        if asked.code is None and asked.method.name != "Admin/DescribeCluster":
            assert not found, (asked.method.name, "left out of an answer, or open: no refusal")
            continue
        assert found, asked.method.name
        for each in found:
            assert each["rpc"] == asked.method.name
            assert each["principal"] == asked.principal
            assert each["peer"].startswith("local:")
            assert each["decision"] == "refused"
            assert each["operation"]
        codes = {each["error_code"] for each in found}
        assert (asked.code or 31) in codes, asked.method.name
        if family.__name__ in ("by_topic_name", "by_topic_id"):
            told = {each["name"] for line in found for each in line["resources"]}
            assert SECRET in told, asked.method.name


async def test_super_users_calls_leave_lines_of_changes_and_looks_only(world, audited):
    """AUD-1: whatever is not a change or a look has none, by whomever; AUD-4: names, outcome."""
    harmless = {"Admin/DrainNode", "GroupCoordinator/ShareGroupHeartbeatStream"}
    for family in FAMILIES:
        for asked in family(world):
            name = asked.method.name
            if asked.method.kind is StreamingKind.STREAM or name in harmless:
                continue
            if name in ("ShareLeader/ShareFetch", "ShareLeader/ShareAcknowledge"):
                continue
            await world.call(ROOT, asked.method, asked.existing)
            found = lines(audited, ending=True)
            assert {each["rpc"] for each in found} <= {name}
            expected = AUDIT_CLASSES[name]
            if isinstance(expected, Unrecorded):
                assert not found, name
            for each in found:
                assert each["kind"] == ("look" if expected.is_look else "change"), name
                assert each["principal"] == ROOT


def test_what_a_request_is_about_can_be_named_for_every_recorded_rpc():
    """Each class reads its own messages: of an empty one, and of one with an empty entry."""
    for name, found in AUDIT_CLASSES.items():
        if not isinstance(found, Recorded):
            continue
        request, response = BY_NAME[name].request(), BY_NAME[name].response()
        named(found, request)
        for field in request.DESCRIPTOR.fields:
            if field.message_type is not None and field.is_repeated:
                getattr(request, field.name).add()
            elif field.is_repeated:
                getattr(request, field.name).append("x")
        assert named(found, request), name
        for field in response.DESCRIPTOR.fields:
            if field.message_type is not None and field.is_repeated:
                getattr(response, field.name).add()
        assert set(found.codes(response)) == {0}, name


def test_nothing_reads_a_record_or_metadata():
    """AUD-5: the table and the listener do not touch what could hold a payload or a secret."""
    from sharemesh.audit import classes, listener

    source = inspect.getsource(classes)
    for word in (".records", "decoded_records", ".value_", "headers", "state_batches"):
        assert word not in source, word
    assert inspect.getsource(listener).count(".metadata") == 1  # the trace of the caller


async def test_rules_and_settings_are_named_with_what_was_changed(world, audited):
    rules = admin.CreateAclsRequest()
    rules.rules.add(
        principal="User:bob",
        resource_type=admin.ACL_RESOURCE_TYPE_TOPIC,
        resource_name=SECRET,
        pattern_type=admin.ACL_PATTERN_TYPE_LITERAL,
        operation=admin.ACL_OPERATION_READ,
        permission=admin.ACL_PERMISSION_ALLOW,
    )
    rules.rules.add(principal="User:bob")  # refused: incomplete
    await world.call(ROOT, BY_NAME["Admin/CreateAcls"], rules)
    done, failed = lines(audited)
    assert done["resources"] == [
        {"type": "acl", "name": "User:bob", "change": f"ALLOW READ on LITERAL TOPIC {SECRET}"}
    ]
    assert (failed["decision"], failed["error"]) == ("failed", "INVALID_REQUEST")
    request = admin.AlterConfigsRequest(validate_only=True)
    request.resource.type, request.resource.name = admin.CONFIG_RESOURCE_TYPE_TOPIC, SECRET
    request.configs.add(name="retention.ms", value="5000")
    await world.call(ROOT, BY_NAME["Admin/AlterConfigs"], request)
    assert not lines(audited), "nothing was changed"
    request.validate_only = False
    await world.call(ROOT, BY_NAME["Admin/AlterConfigs"], request)
    [changed] = lines(audited)
    assert changed["resources"] == [
        {"type": "topic", "name": SECRET, "change": "retention.ms=5000"}
    ]
    assert (changed["decision"], changed["kind"]) == ("done", "change")


async def test_deleted_topics_are_named_though_they_are_gone(world, audited):
    request = admin.DeleteTopicsRequest(names=[SECRET, "absent"])
    asked = Asked(ROOT, BY_NAME["Admin/DeleteTopics"], request, request, None)
    await world.call(ROOT, asked.method, request)
    done, failed = lines(audited)
    assert [each["name"] for each in done["resources"]] == [SECRET]
    assert [each["name"] for each in failed["resources"]] == ["absent"]
    assert failed["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert HERE not in str(done)


def test_what_only_reads_is_no_change_of_the_audit_log():
    changes = {
        name
        for name, each in AUDIT_CLASSES.items()
        if isinstance(each, Recorded) and not each.is_look
    }
    looks = {
        name
        for name, each in AUDIT_CLASSES.items()
        if name not in changes
        and (isinstance(each, Recorded) or each.reason.startswith("a description"))
    }
    assert looks <= READS
    assert not changes & READS
