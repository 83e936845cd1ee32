"""Access rules: what they allow (spec ACL, Kafka's rules), and the table in the store."""

import random

import pytest

from sharemesh.cluster.acl_table import ANSWERS_BYTES_MAX, NODE_PRINCIPAL, AclTable
from sharemesh.cluster.store.acl_rules import (
    CLUSTER_NAME,
    AclRule,
    Pattern,
    Permission,
    RuleSet,
    add_rules,
    check_rule,
    decode_rule,
    encode_rule,
    find_rules,
    remove_rules,
)
from sharemesh.cluster.view.cluster_state import ClusterState, StateChanges
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MAX_GROUP_ID_CHARS
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.ports.cluster import Role
from sharemesh.ports.coordination import Delete, Put
from tests.cluster.mesh import Mesh

READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
TOPIC, GROUP, KAFKA = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def allow(operation, resource=TOPIC, name="orders", principal="User:ann", **more):
    return AclRule(principal, Permission.ALLOW, operation, resource, name, **more)


def deny(operation, resource=TOPIC, name="orders", principal="User:ann", **more):
    return AclRule(principal, Permission.DENY, operation, resource, name, **more)


@pytest.mark.parametrize(
    ("rules", "asked", "answer"),
    [
        ([], (READ, TOPIC, "orders"), False),
        ([allow(READ)], (READ, TOPIC, "orders"), True),
        ([allow(READ)], (READ, TOPIC, "order"), False),
        ([allow(READ)], (READ, GROUP, "orders"), False),
        ([allow(READ, principal="User:bob")], (READ, TOPIC, "orders"), False),
        ([allow(READ, principal="User:*")], (READ, TOPIC, "orders"), True),
        ([allow(READ, name="*")], (READ, TOPIC, "anything"), True),
        ([allow(READ, name="or", pattern=Pattern.PREFIXED)], (READ, TOPIC, "orders"), True),
        ([allow(READ, name="or")], (READ, TOPIC, "orders"), False),
        ([allow(None)], (Operation.ALTER_CONFIGS, TOPIC, "orders"), True),
        ([allow(READ)], (WRITE, TOPIC, "orders"), False),
        # READ, WRITE, DELETE and ALTER imply DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS.
        ([allow(WRITE)], (DESCRIBE, TOPIC, "orders"), True),
        (
            [allow(Operation.ALTER_CONFIGS)],
            (Operation.DESCRIBE_CONFIGS, TOPIC, "orders"),
            True,
        ),
        ([allow(DESCRIBE)], (READ, TOPIC, "orders"), False),
        # A deny wins wherever it stands, and implies nothing.
        ([allow(READ), deny(READ)], (READ, TOPIC, "orders"), False),
        ([deny(READ, principal="User:*"), allow(None)], (READ, TOPIC, "orders"), False),
        ([deny(None, name="*"), allow(READ)], (READ, TOPIC, "orders"), False),
        ([deny(READ), allow(DESCRIBE)], (DESCRIBE, TOPIC, "orders"), True),
    ],
)
def test_rules_allow_what_kafka_allows(rules, asked, answer):
    assert RuleSet(rules).allows("User:ann", *asked) is answer


@pytest.mark.parametrize(
    "rule",
    [
        allow(READ, principal="ann"),
        allow(READ, principal="User:"),
        allow(READ, principal="Node:sharemesh"),
        allow(READ, name=""),
        allow(READ, name="x" * 250),
        allow(READ, GROUP, name="x" * (MAX_GROUP_ID_CHARS + 1)),
        allow(WRITE, resource=GROUP),
        allow(READ, resource=KAFKA, name=CLUSTER_NAME),
        allow(DESCRIBE, resource=KAFKA, name="other"),
        allow(DESCRIBE, resource=KAFKA, name=CLUSTER_NAME, pattern=Pattern.PREFIXED),
    ],
)
def test_what_could_never_apply_is_refused(rule):
    with pytest.raises(RefusedError) as refused:
        check_rule(rule)
    assert refused.value.error is ErrorCode.INVALID_REQUEST


def test_rules_survive_their_stored_form_and_have_one_id():
    for rule in (allow(None), deny(READ, GROUP, "g", pattern=Pattern.PREFIXED)):
        assert decode_rule(encode_rule(rule)) == rule
        assert decode_rule(encode_rule(rule)).rule_id == rule.rule_id
    assert allow(READ).rule_id != deny(READ).rule_id


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


@pytest.fixture
async def view(mesh):
    return (await mesh.add("c", Role.CONTROLLER)).view


async def test_the_table_follows_the_store(mesh, view):
    table = AclTable(view, super_users=["User:root"])
    assert not table.allows("User:ann", READ, TOPIC, "orders")
    assert table.allows("User:root", READ, TOPIC, "orders")
    assert table.allows(NODE_PRINCIPAL, Operation.CLUSTER_ACTION, KAFKA, CLUSTER_NAME)
    await add_rules(mesh.parent, view, [allow(READ), allow(READ), allow(None, GROUP, "*")])
    await mesh.settle()
    assert table.allows("User:ann", READ, TOPIC, "orders")
    assert table.allows("User:ann", READ, GROUP, "g")
    await add_rules(mesh.parent, view, [allow(READ)])
    assert len(await find_rules(mesh.parent, view, lambda _: True)) == 2
    removed = await remove_rules(mesh.parent, view, lambda rule: rule.resource is TOPIC)
    await mesh.settle()
    assert removed == [allow(READ)]
    assert not table.allows("User:ann", READ, TOPIC, "orders")
    assert table.allows("User:ann", READ, GROUP, "g")


async def test_while_a_rule_cannot_be_read_only_super_users_pass(mesh, view):
    table = AclTable(view, super_users=["User:root"])
    await add_rules(mesh.parent, view, [allow(READ)])
    await mesh.settle()
    assert table.allows("User:ann", READ, TOPIC, "orders")
    key = view.keys.acl("0" * 32)
    await mesh.parent.commit([], [Put(key, b'{"v":99}')])
    await mesh.settle()
    assert not table.allows("User:ann", READ, TOPIC, "orders")
    assert table.allows("User:root", READ, TOPIC, "orders")
    await mesh.parent.commit([], [Delete(key)])
    await mesh.settle()
    assert table.allows("User:ann", READ, TOPIC, "orders")


KNOWN_TO_0_1_0 = {TOPIC, GROUP, KAFKA}


async def test_a_process_of_0_1_0_never_meets_a_rule_of_a_type_that_it_does_not_know_acl_12(
    mesh, view
):
    """It reads ``acls/`` only, and one rule there that it cannot read shuts everybody out."""
    transactions = allow(WRITE, ResourceType.TRANSACTIONAL_ID, "payments")
    await add_rules(mesh.parent, view, [allow(READ), allow(READ, GROUP), transactions])
    read = (await mesh.parent.list(view.keys.acls)).entries
    assert {decode_rule(entry.value).resource for entry in read} <= KNOWN_TO_0_1_0
    old = ClusterState(view.keys)
    del old._rooms["typed-acls"]  # as in 0.1.0
    for entry in (await mesh.parent.list(view.keys.prefix)).entries:
        old.apply(entry.key, entry, StateChanges())
    assert (len(old.acls), old.unreadable) == (2, {})


async def test_rules_of_new_types_are_listed_removed_and_followed_as_others_are_acl_12(mesh, view):
    table = AclTable(view, super_users=[])
    asked = ("User:ann", WRITE, ResourceType.TRANSACTIONAL_ID, "payments")
    transactions = allow(WRITE, ResourceType.TRANSACTIONAL_ID, "payments")
    await add_rules(mesh.parent, view, [allow(READ), transactions, transactions])
    await mesh.settle()
    assert table.allows(*asked)
    assert set(await find_rules(mesh.parent, view, lambda _: True)) == {allow(READ), transactions}
    removed = await remove_rules(mesh.parent, view, lambda rule: rule == transactions)
    await mesh.settle()
    assert removed == [transactions]
    assert not table.allows(*asked)
    assert table.allows("User:ann", READ, TOPIC, "orders")


async def test_a_rule_of_a_new_type_at_the_old_place_is_read_and_moves_when_added_again_acl_12(
    mesh, view
):
    table = AclTable(view, super_users=[])
    asked = ("User:ann", WRITE, ResourceType.TRANSACTIONAL_ID, "payments")
    rule = allow(WRITE, ResourceType.TRANSACTIONAL_ID, "payments")
    old_place = Put(view.keys.acl(rule.rule_id), encode_rule(rule))
    await mesh.parent.commit([], [old_place])
    await mesh.settle()
    assert table.allows(*asked)
    await add_rules(mesh.parent, view, [rule])
    await mesh.settle()
    assert table.allows(*asked)
    assert (await mesh.parent.list(view.keys.acls)).entries == ()
    await mesh.parent.commit([], [old_place])  # by a process of the pre-release
    assert await find_rules(mesh.parent, view, lambda _: True) == [rule]
    assert await remove_rules(mesh.parent, view, lambda _: True) == [rule]
    await mesh.settle()
    assert not table.allows(*asked)


async def test_a_rule_of_a_type_that_a_newer_version_knows_shuts_nobody_out_acl_12(mesh, view):
    table = AclTable(view, super_users=[])
    await add_rules(mesh.parent, view, [allow(READ)])
    await mesh.parent.commit([], [Put(view.keys.typed_acl("delegation_token", "1"), b'{"v":99}')])
    await mesh.settle()
    assert table.allows("User:ann", READ, TOPIC, "orders")
    damaged = view.keys.typed_acl(ResourceType.TRANSACTIONAL_ID.value, "1")
    await mesh.parent.commit([], [Put(damaged, b'{"v":99}')])
    await mesh.settle()
    assert not table.allows("User:ann", READ, TOPIC, "orders")


async def test_a_refused_rule_stores_nothing(mesh, view):
    with pytest.raises(RefusedError):
        await add_rules(mesh.parent, view, [allow(READ), allow(READ, name="")])
    assert await find_rules(mesh.parent, view, lambda _: True) == []


def test_a_question_walks_only_the_rules_that_fit_it_however_many_there_are():
    others = [allow(READ, name=f"t{n}", principal=f"User:u{n % 50}") for n in range(5_000)]
    others += [
        allow(READ, name=f"p{n}-", principal=f"User:u{n % 50}", pattern=Pattern.PREFIXED)
        for n in range(5_000)
    ]
    mine = [allow(READ), deny(WRITE, principal="User:*"), allow(READ, GROUP)]
    mine += [allow(DESCRIBE, name="ord", pattern=Pattern.PREFIXED), allow(READ, name="*")]
    rules = RuleSet([*others, *mine])
    assert set(rules.fitting("User:ann", TOPIC, "orders")) == {mine[0], mine[1], mine[3], mine[4]}
    assert list(rules.fitting("User:eve", TOPIC, "t7")) == []
    assert list(rules.fitting("User:u7", TOPIC, "t7")) == [others[7]]
    assert list(rules.fitting("User:u7", TOPIC, "p7-x")) == [others[5_007]]


def test_rules_that_came_and_went_leave_the_answers_of_those_that_stayed():
    rng = random.Random(20)
    names = ["o", "or", "ord", "orders", "p", "*"]
    rules, held = RuleSet(), []
    for _ in range(500):
        if held and rng.random() < 0.5:
            rules.remove(held.pop(rng.randrange(len(held))))
        else:
            made = rng.choice((allow, deny))(
                rng.choice((READ, WRITE, DESCRIBE)),
                name=rng.choice(names),
                principal=rng.choice(("User:ann", "User:eve", "User:*")),
                pattern=rng.choice(list(Pattern)),
            )
            held.append(made)
            rules.add(made)
        asked = (rng.choice(("User:ann", "User:eve")), TOPIC, rng.choice(("orders", "ord", "q")))
        fresh = RuleSet(held)
        assert sorted(rules.fitting(*asked), key=str) == sorted(fresh.fitting(*asked), key=str), (
            held
        )


async def test_a_change_of_one_rule_touches_one_of_thousands_bnd_20(mesh, view, monkeypatch):
    many = [allow(READ, name=f"t{number}") for number in range(200)]
    for first in range(0, len(many), 50):
        await add_rules(mesh.parent, view, many[first : first + 50])
    await mesh.settle()
    table = AclTable(view, super_users=[])
    touched = []
    monkeypatch.setattr(RuleSet, "add", lambda _, rule: touched.append(rule))
    monkeypatch.setattr(RuleSet, "remove", lambda _, rule: touched.append(rule))
    await add_rules(mesh.parent, view, [allow(WRITE)])
    await mesh.settle()
    await remove_rules(mesh.parent, view, lambda rule: rule == many[7])
    await mesh.settle()
    assert touched == [allow(WRITE), many[7]]
    assert table.allows("User:ann", READ, TOPIC, "t8")


async def test_names_that_nothing_can_have_are_refused_and_not_remembered(mesh, view):
    """AUT-3."""
    await add_rules(mesh.parent, view, [allow(READ, GROUP, name="*")])
    await mesh.settle()
    table = AclTable(view, super_users=[])
    assert table.allows("User:ann", READ, GROUP, "g" * MAX_GROUP_ID_CHARS)
    remembered = len(table._answers)
    assert not table.allows("User:ann", READ, GROUP, "g" * (MAX_GROUP_ID_CHARS + 1))
    assert len(table._answers) == remembered


async def test_who_listens_for_changes_finds_the_new_answer_and_one_failure_hides_none(
    mesh, view, caplog
):
    table = AclTable(view, super_users=[])
    heard = []
    table.on_change(lambda: heard.append(1 // 0))
    leave = table.on_change(lambda: heard.append(table.allows("User:ann", READ, TOPIC, "orders")))
    await add_rules(mesh.parent, view, [allow(READ)])
    await mesh.settle()
    await remove_rules(mesh.parent, view, lambda _: True)
    await mesh.settle()
    assert heard == [True, False]
    assert "a listener for changes of access rules failed" in caplog.text
    leave()
    await add_rules(mesh.parent, view, [allow(READ)])
    await mesh.settle()
    assert heard == [True, False]


async def test_answers_about_rights_take_at_most_their_bytes_bnd_21(mesh, view):
    table = AclTable(view, super_users=[])
    for number in range(20_000):
        name = f"{number:06d}".ljust(1_000, "ü")
        assert not table.allows("User:ann", READ, GROUP, name)
        assert table._answers.size_bytes <= ANSWERS_BYTES_MAX
