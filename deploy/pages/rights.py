"""The table of docs/guides/security.md: what a user must be allowed for each thing to do."""

from collections.abc import Iterator

from deploy.pages import DOCS, with_section
from sharemesh import methods as m
from sharemesh.authorization.permissions import PERMISSIONS, Open, RequiredPermission
from sharemesh.cluster.store.acl_rules import ANY_NAME, AclRule, Permission, RuleSet
from sharemesh.methods import Method
from sharemesh.ports.authorizer import Operation, ResourceType

PAGE = DOCS / "guides" / "security.md"
Right = tuple[Operation, ResourceType]

TASKS: dict[str, tuple[Method, ...]] = {
    "produce; the second only for transactional batches": (m.PRODUCE, m.INIT_PRODUCER_ID),
    "consume": (
        m.SHARE_GROUP_HEARTBEAT,
        m.SHARE_GROUP_HEARTBEAT_STREAM,
        m.CONSUME,
        m.HOLD_SESSION,
        m.SHARE_FETCH,
        m.SHARE_ACKNOWLEDGE,
    ),
    "list groups": (m.LIST_GROUPS,),
    "describe groups, their start offsets and lag; explain records": (
        m.SHARE_GROUP_DESCRIBE,
        m.DESCRIBE_SHARE_GROUP_OFFSETS,
        m.EXPLAIN,
    ),
    "find the coordinator of a group, or of a share partition": (m.FIND_COORDINATOR,),
    "set start offsets": (m.ALTER_SHARE_GROUP_OFFSETS,),
    "delete start offsets": (m.DELETE_SHARE_GROUP_OFFSETS,),
    "delete a group": (m.DELETE_GROUPS,),
    "see the settings of a group": (m.DESCRIBE_GROUP_CONFIGS,),
    "change the settings of a group, `consume --from-beginning`": (m.ALTER_GROUP_CONFIGS,),
    "read records without a group": (m.FETCH,),
    "see topics and their offsets": (m.METADATA, m.DESCRIBE_TOPICS, m.LIST_OFFSETS),
    "create a topic": (m.CREATE_TOPICS,),
    "attach a topic of the Kafka cluster": (m.ATTACH_TOPICS,),
    "detach one": (m.DETACH_TOPICS,),
    "add partitions to a topic": (m.CREATE_PARTITIONS,),
    "delete a topic, or records of it": (m.DELETE_TOPICS, m.DELETE_RECORDS),
    "see the settings of a topic, or of the cluster": (m.DESCRIBE_CONFIGS,),
    "change the settings of a topic, or of the cluster": (m.ALTER_CONFIGS,),
    "`quotas list` and `describe`": (m.DESCRIBE_CLIENT_QUOTAS,),
    "`quotas alter`": (m.ALTER_CLIENT_QUOTAS,),
    "`sharemesh cluster`, `acls list`, `users list`": (
        m.DESCRIBE_CLUSTER,
        m.DESCRIBE_ACLS,
        m.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ),
    "change access rules and passwords, drain a process, give up lost records": (
        m.CREATE_ACLS,
        m.DELETE_ACLS,
        m.ALTER_USER_SCRAM_CREDENTIALS,
        m.DRAIN_NODE,
        m.ACCEPT_LOSS,
    ),
    "commit generations (Spark)": (m.COMMIT_GENERATION,),
    "write share state (processes of the cluster)": (
        m.INITIALIZE_SHARE_GROUP_STATE,
        m.READ_SHARE_GROUP_STATE,
        m.WRITE_SHARE_GROUP_STATE,
        m.DELETE_SHARE_GROUP_STATE,
        m.READ_SHARE_GROUP_STATE_SUMMARY,
        m.READ_SHARE_RECORD_HISTORY,
    ),
    "see open transactions": (m.DESCRIBE_PRODUCERS,),
    "end transactions": (m.WRITE_TXN_MARKERS,),
}
"""Every method that needs a permission stands in one of them; a test holds it."""


def section() -> str:
    """Return one row for each task."""
    rows = [f"| {task} | {', '.join(_needs(calls))} |" for task, calls in TASKS.items()]
    return "\n".join(["| to | needs |", "|---|---|", *rows]) + "\n"


def _needs(calls: tuple[Method, ...]) -> Iterator[str]:
    """Yield the rights that the calls need together, without those that others imply."""
    rights: dict[Right, set[Right | None]] = {}
    for each in (declared for call in calls for declared in _declared(call)):
        rights.setdefault((each.operation, each.resource), set()).add(each.instead)
    for right, instead in rights.items():
        if not _allowed(right, [other for other in rights if other != right]):
            enough = [] if None in instead else [other for other in instead if other]
            yield " or ".join(_words(each) for each in (right, *enough))


def _declared(call: Method) -> tuple[RequiredPermission, ...]:
    declared = PERMISSIONS[call.name]
    return () if isinstance(declared, Open) else declared


def _allowed(right: Right, others: list[Right]) -> bool:
    """Return whether who has these other rights has this one too."""
    rules = [AclRule("User:a", Permission.ALLOW, *other, ANY_NAME) for other in others]
    return RuleSet(rules).allows("User:a", *right, "a")


def _words(right: Right) -> str:
    operation, resource = right
    return f"{operation.name} {resource.value}"


def page() -> str:
    """Return the page with the table as the code has it."""
    return with_section(PAGE, "rights", section())
