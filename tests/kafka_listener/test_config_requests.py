"""Settings and access rules through the listener."""

import pytest

from sharemesh import methods
from sharemesh.audit.listener import AuditedListener
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.audit.events import lines, trail
from tests.kafka_listener.asked import orders
from tests.kafka_listener.world import ListeningMesh

DESCRIBE, ALTER, LIST_RESOURCES, LIST_GROUPS = 32, 44, 74, 16
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND = 0, 1, 2
LOCK = "share.record.lock.duration.ms"


async def described(client, kind, name, keys=None, version=4, **wanted):
    told = await client.ask(
        DESCRIBE,
        version,
        resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        include_synonyms=wanted.get("synonyms", False),
        include_documentation=wanted.get("words", False),
    )
    [result] = told.results
    return int(result.error_code), {each.name: each for each in result.configs}


async def altered(client, kind, name, *changes, version=1, only_check=False):
    told = await client.ask(
        ALTER,
        version,
        resources=[resource(kind, name, *changes)],
        validate_only=only_check,
    )
    [result] = told.responses
    return int(result.error_code)


def resource(kind, name, *changes):
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": each, "config_operation": operation, "value": value}
            for each, operation, value in changes
        ],
    }


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("kind", "name", "setting", "value", "source"),
    [
        (TOPIC, "orders", "retention.ms", "90000000", 1),
        (BROKER, "", "group.share.max.size", "3", 3),
        (GROUP, "anew", LOCK, "20000", 8),
    ],
)
async def test_settings_are_set_and_deleted(version, kind, name, setting, value, source):
    """KLS-42."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        _, before = await described(client, kind, name)
        change = (setting, SET, value)
        assert await altered(client, kind, name, change, only_check=True) == 0
        assert (await described(client, kind, name))[1] == before
        assert await altered(client, kind, name, change, version=version) == 0
        for each in range(1, 5):
            code, found = await described(client, kind, name, (setting,), each)
            assert (code, list(found)) == (0, [setting])
            assert (found[setting].value, found[setting].config_source) == (value, source)
        assert await altered(client, kind, name, (setting, DELETE, None)) == 0
        assert (await described(client, kind, name))[1] == before
        assert before[setting].config_source == 5


async def test_settings_are_told_with_types_synonyms_and_words():
    """KLS-42."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        _, found = await described(client, TOPIC, "orders", synonyms=True, words=True)
        assert [found[each].config_type for each in ("retention.ms", "max.message.bytes")] == [5, 3]
        assert found["cleanup.policy"].config_type == 2
        [same] = found["retention.ms"].synonyms
        assert (same.name, same.value, same.source) == ("retention.ms", "604800000", 5)
        assert found["retention.ms"].documentation
        _, found = await described(client, GROUP, "g", synonyms=True)
        reset = found["share.auto.offset.reset"].synonyms
        assert [(each.value, each.source) for each in reset] == [("earliest", 8), ("latest", 5)]
        _, plain = await described(client, GROUP, "g")
        assert plain["share.renew.acknowledge.enable"].config_type == 1
        assert not plain[LOCK].synonyms
        assert plain[LOCK].documentation is None


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "99", ErrorCode.INVALID_REQUEST),
        (METRICS, "m", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_is_not_there_has_no_settings(kind, name, code):
    """KLS-42."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        if kind != GROUP:  # any group id has settings; none has no right of its own
            assert await described(client, kind, name) == (code, {})
        assert await altered(client, kind, name, (LOCK, SET, "1")) == code
        assert (await described(client, BROKER, "7"))[0] == 0
        assert await altered(client, BROKER, "7", (LOCK, SET, "1")) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("no.such.setting", SET, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
async def test_a_change_that_cannot_be_changes_nothing(changes, code):
    """KLS-42."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        good = ("segment.ms", SET, "1000000")
        assert await altered(client, TOPIC, "orders", good, *changes) == code
        assert dict(mesh.view.topic_named("orders").configs) == {}
        unreadable = (LOCK, SET, "x")
        assert await altered(client, GROUP, "g", unreadable) == ErrorCode.INVALID_CONFIG


async def test_resources_are_bounded_and_named_once():
    """KLS-42."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        twice = [resource(TOPIC, "orders", ("segment.ms", SET, "1000000"))] * 2
        told = await client.ask(ALTER, 1, resources=twice, validate_only=False)
        assert [int(each.error_code) for each in told.responses] == [ErrorCode.INVALID_REQUEST] * 2
        many = [resource(TOPIC, f"t{n}") for n in range(101)]
        told = await client.ask(ALTER, 1, resources=many, validate_only=True)
        assert int(told.responses[-1].error_code) == ErrorCode.INVALID_REQUEST
        assert int(told.responses[0].error_code) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        asked = [
            {"resource_type": TOPIC, "resource_name": "orders", "configuration_keys": ("x",)}
        ] * 101
        told = await client.ask(
            DESCRIBE, 4, resources=asked, include_synonyms=False, include_documentation=False
        )
        codes = [int(each.error_code) for each in told.results]
        assert codes == [0] * 100 + [ErrorCode.INVALID_REQUEST]


async def test_settings_of_a_group_are_asked_of_its_coordinator():
    """KLS-42: by whichever process a client asked, after a look at the client's right."""
    root = "User:ANONYMOUS"
    async with ListeningMesh(super_users=[root]) as mesh, mesh.connect() as client:
        await orders(mesh)
        mesh.group_calls._node_id = "another"
        change = (LOCK, SET, "20000")
        assert await altered(client, GROUP, "g", change) == 0
        assert (await described(client, GROUP, "g"))[1][LOCK].value == "20000"
        mesh.mesh.nodes[0].authorizer._above = frozenset()
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert await altered(client, GROUP, "g", change) == denied
        assert await described(client, GROUP, "g") == (denied, {})
        told = await client.ask(LIST_RESOURCES, 1, resource_types=())
        assert int(told.error_code) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_who_may_not_list_what_has_settings_is_in_the_audit_log():
    """KLS-42, AUD-2."""
    async with ListeningMesh(super_users=["User:root"]) as mesh, mesh.connect() as client:
        told, handlers = trail(), mesh.listener.handlers
        name = methods.DESCRIBE_CONFIGS.name
        handler = handlers._unary[name]
        handlers._unary = dict(handlers._unary)
        AuditedListener(handlers, told, bytes.hex).offer(methods.DESCRIBE_CONFIGS, handler)
        listed = await client.ask(LIST_RESOURCES, 1, resource_types=())
        assert int(listed.error_code) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert listed.config_resources == ()
        [said] = lines(told)
        assert (said["kind"], said["rpc"], said["operation"]) == (
            "refusal", name, "describe_configs",
        )  # fmt: skip


async def test_a_group_without_a_coordinator_has_no_settings_for_now():
    """KLS-42."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        mesh.view.group_coordinator = lambda _: None
        mesh.view.wait_for = _at_once
        missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await altered(client, GROUP, "g", (LOCK, SET, "20000")) == missing
        assert await described(client, GROUP, "g") == (missing, {})


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (Failure.UNAVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (Failure.DEADLINE_EXCEEDED, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (Failure.RESOURCE_EXHAUSTED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
async def test_codes_of_a_coordinator_that_moves_are_those_of_coordinators(said, told):
    """KLS-16: for settings of groups as for all else of a group."""

    async def describe(request, _):
        if isinstance(said, Failure):
            raise CallFailedError(said, "it moves")
        result = pb.DescribedGroupConfigs(group_id="g", error_code=said)
        return pb.DescribeGroupConfigsResponse(results=[result])

    async def alter(request, _):
        if isinstance(said, Failure):
            raise CallFailedError(said, "it moves")
        return pb.AlterGroupConfigsResponse(error_code=said)

    async def listed(request, _):
        if isinstance(said, Failure):
            raise CallFailedError(said, "it moves")
        return pb.ListGroupsResponse(error_code=said)

    async with ListeningMesh() as mesh, mesh.connect() as client:
        handlers = mesh.listener.handlers
        handlers._unary = handlers._unary | {
            methods.DESCRIBE_GROUP_CONFIGS.name: describe,
            methods.ALTER_GROUP_CONFIGS.name: alter,
            methods.LIST_GROUPS.name: listed,
        }
        assert await described(client, GROUP, "g") == (told, {})
        assert await altered(client, GROUP, "g", (LOCK, SET, "20000")) == told
        assert int((await client.ask(LIST_GROUPS, 5)).error_code) == told


async def _at_once(condition, *, timeout_ms):
    return condition()


async def test_a_process_without_the_handlers_says_so_for_each_resource():
    """KLS-16."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        mesh.listener.handlers._unary = {}
        failed = ErrorCode.UNKNOWN_SERVER_ERROR
        assert await described(client, TOPIC, "orders") == (failed, {})
        assert await altered(client, TOPIC, "orders") == failed
        assert (await described(client, GROUP, "g"))[0] == ErrorCode.NOT_COORDINATOR


async def test_what_has_settings_is_listed():
    """KLS-42."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        told = await client.ask(LIST_RESOURCES, 1, resource_types=())
        found = [(each.resource_type, each.resource_name) for each in told.config_resources]
        assert found == [(TOPIC, "orders"), (BROKER, "7"), (GROUP, "g")]
        told = await client.ask(LIST_RESOURCES, 1, resource_types=(GROUP,))
        assert [each.resource_name for each in told.config_resources] == ["g"]
        told = await client.ask(LIST_RESOURCES, 1, resource_types=(GROUP, TOPIC, GROUP, TOPIC))
        found = [(each.resource_type, each.resource_name) for each in told.config_resources]
        assert found == [(GROUP, "g"), (TOPIC, "orders")], "each once, however often it is named"
        assert (await client.ask(LIST_RESOURCES, 0)).config_resources == ()


async def test_a_setting_that_another_process_changed_is_audited_as_the_callers():
    """KLS-42: the coordinator's own line names the process that asked it."""
    root = "User:ANONYMOUS"
    async with ListeningMesh(super_users=[root]) as mesh, mesh.connect() as client:
        await orders(mesh)
        mesh.group_calls._node_id = "another"
        told = trail()
        mesh.group_calls.offer(AuditedListener(mesh.group_calls._elsewhere, told, bytes.hex))
        change = (LOCK, SET, "20000")
        assert await altered(client, GROUP, "g", change) == 0
        [said] = lines(told)
        assert (said["kind"], said["principal"], said["decision"]) == ("change", root, "done")
        assert "AlterGroupConfigs" in said["rpc"]
        mesh.mesh.nodes[0].authorizer._above = frozenset()
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert await altered(client, GROUP, "g", change) == denied
        [said] = lines(told)
        assert (said["kind"], said["principal"]) == ("refusal", root)


async def test_groups_of_one_silent_coordinator_are_waited_for_once(monkeypatch):
    """KLS-42."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        await orders(mesh)
        waits = []

        async def wait_for(condition, *, timeout_ms):
            waits.append(timeout_ms)
            return condition()

        view = mesh.group_calls._view
        monkeypatch.setattr(view, "wait_for", wait_for, raising=False)
        monkeypatch.setattr(view, "group_coordinator", lambda _: None, raising=False)
        monkeypatch.setattr(view, "group_shard", lambda _: 0, raising=False)
        asked = [{"resource_type": GROUP, "resource_name": f"g{n}"} for n in range(100)]
        told = await client.ask(
            DESCRIBE,
            4,
            resources=[{**each, "configuration_keys": None} for each in asked],
            include_synonyms=False,
            include_documentation=False,
        )
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert [int(each.error_code) for each in told.results] == [unavailable] * 100
        many = [resource(GROUP, each["resource_name"], (LOCK, SET, "20000")) for each in asked]
        told = await client.ask(ALTER, 1, resources=many, validate_only=False)
        assert [int(each.error_code) for each in told.responses] == [unavailable] * 100
        assert waits == [5_000, 5_000]


# ---- access rules -------------------------------------------------------------------------------


LITERAL, PREFIXED, ANY, MATCH = 3, 4, 1, 2
READ, WRITE, ALLOW, DENY = 3, 4, 3, 2


def rule(name, pattern=LITERAL, host="*", operation=READ, kind=TOPIC):
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": "User:alice",
        "host": host,
        "operation": operation,
        "permission_type": ALLOW,
    }


def sought(name=None, pattern=ANY, host=None, kind=TOPIC):
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": "User:alice",
        "host_filter": host,
        "operation": 1,
        "permission_type": 1,
    }


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_access_rules_are_created_found_and_removed(version):
    """KLS-43."""
    async with ListeningMesh(super_users=["User:ANONYMOUS"]) as mesh, mesh.connect() as client:

        async def found(**wanted):
            told = await client.ask(DESCRIBE_ACLS, version, **sought(**wanted))
            return sorted(
                (each.resource_name, each.pattern_type, len(each.acls)) for each in told.resources
            )

        rules = [
            rule("orders"),
            rule("orders", operation=WRITE),
            rule("ord", PREFIXED),
            rule("*"),
            rule("clicks"),
            rule("orders", host="10.0.0.1"),
            rule("orders", kind=6),
        ]
        made = await client.ask(CREATE_ACLS, version, creations=rules)
        invalid = ErrorCode.INVALID_REQUEST
        assert [int(each.error_code) for each in made.results] == [0, 0, 0, 0, 0, invalid, invalid]
        assert "every host" in made.results[5].error_message
        orders_rules = ("orders", LITERAL, 2)
        beginning, everything = ("ord", PREFIXED, 1), ("*", LITERAL, 1)
        assert await found() == [everything, ("clicks", LITERAL, 1), beginning, orders_rules]
        assert await found(name="orders", pattern=LITERAL) == [orders_rules]
        assert await found(name="orders", pattern=MATCH) == [everything, beginning, orders_rules]
        assert await found(pattern=MATCH, host="*") == await found()
        assert await found(host="10.0.0.1") == []
        filters = [
            sought("orders"),
            sought("ord", PREFIXED),
            sought("clicks", MATCH),
            sought("clicks", host="10.0.0.1"),
        ]
        gone = await client.ask(DELETE_ACLS, version, filters=filters)
        told = [(int(e.error_code), len(e.matching_acls)) for e in gone.filter_results]
        assert told == [(0, 2), (0, 1), (invalid, 0), (0, 0)]
        [removed] = gone.filter_results[1].matching_acls
        assert (removed.resource_name, removed.host, removed.operation) == ("ord", "*", READ)
        assert await found() == [everything, ("clicks", LITERAL, 1)]


async def test_without_access_control_there_are_no_rules():
    """KLS-43."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        disabled = ErrorCode.SECURITY_DISABLED
        told = await client.ask(DESCRIBE_ACLS, 3, **sought())
        assert (int(told.error_code), told.resources) == (disabled, ())
        made = await client.ask(CREATE_ACLS, 3, creations=[rule("orders")])
        assert [int(each.error_code) for each in made.results] == [disabled]
        gone = await client.ask(DELETE_ACLS, 3, filters=[sought()])
        assert [int(each.error_code) for each in gone.filter_results] == [disabled]


async def test_a_refusal_of_all_rules_is_told_for_each():
    """KLS-16, KLS-43."""
    async with ListeningMesh() as mesh, mesh.connect() as client:
        invalid = ErrorCode.INVALID_REQUEST
        made = await client.ask(CREATE_ACLS, 3, creations=[rule("orders")] * 101)
        assert {int(each.error_code) for each in made.results} == {invalid}
        gone = await client.ask(DELETE_ACLS, 3, filters=[sought()] * 101)
        assert {int(each.error_code) for each in gone.filter_results} == {invalid}
        mesh.listener.handlers._unary = {}
        told = await client.ask(DESCRIBE_ACLS, 3, **sought())
        assert int(told.error_code) == ErrorCode.UNKNOWN_SERVER_ERROR
