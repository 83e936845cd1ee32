"""Access rules, created, described and deleted (spec ACL; Kafka's rules for them)."""

from collections.abc import Callable, Sequence

from sharemesh.authorization.access import Access
from sharemesh.cluster.store import acl_rules
from sharemesh.cluster.store.acl_rules import AclRule, Pattern, Permission
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import OPERATIONS_MAX, Coordination, CoordinationError
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as pb

_RESOURCES = {pb.AclResourceType.Value(f"ACL_RESOURCE_TYPE_{it.name}"): it for it in ResourceType}
_PATTERNS = {pb.AclPatternType.Value(f"ACL_PATTERN_TYPE_{it.name}"): it for it in Pattern}
_PERMISSIONS = {pb.AclPermission.Value(f"ACL_PERMISSION_{it.name}"): it for it in Permission}
_OPERATIONS: dict[int, Operation | None] = {
    pb.ACL_OPERATION_ALL: None,
    **{pb.AclOperation.Value(f"ACL_OPERATION_{it.name}"): it for it in Operation},
}
_ANY = (0, 1)
_STORED_AT_ONCE = OPERATIONS_MAX // 2  # a rule that is stored may take another key away
_Wanted = tuple[pb.AclResult, AclRule]


class AclAdmin:
    """Changing rules needs ALTER on the cluster, seeing them DESCRIBE."""

    def __init__(
        self, coordination: Coordination, view: ClusterView, access: Access, *, enabled: bool
    ) -> None:
        """Without an authorizer that reads rules (``enabled``) all is SECURITY_DISABLED."""
        self._coordination = coordination
        self._view = view
        self._access = access
        self._enabled = enabled

    async def create(
        self, request: pb.CreateAclsRequest, context: CallContext
    ) -> pb.CreateAclsResponse:
        """Store rules: a refused one leaves the others."""
        _bounded(len(request.rules), "rules")
        response = pb.CreateAclsResponse()
        wanted: list[_Wanted] = []
        for message in request.rules:
            result = response.results.add()
            try:
                self._check(context.principal, Operation.ALTER)
                wanted.append((result, acl_rules.check_rule(rule_of(message))))
            except RefusedError as error:
                _refuse(result, error)
        for begin in range(0, len(wanted), _STORED_AT_ONCE):
            await self._store(wanted[begin : begin + _STORED_AT_ONCE])
        return response

    async def _store(self, wanted: Sequence[_Wanted]) -> None:
        """Store rules together: all that there are are read before, and they may be thousands.

        If there is no room for all of them, each is tried alone.
        """
        try:
            rules = [rule for _, rule in wanted]
            await acl_rules.add_rules(self._coordination, self._view, rules)
        except RefusedError as error:
            if len(wanted) == 1:
                _refuse(wanted[0][0], error)
                return
            for each in wanted:
                await self._store([each])
        except CoordinationError as error:
            for result, _ in wanted:
                _refuse(result, error)

    async def delete(
        self, request: pb.DeleteAclsRequest, context: CallContext
    ) -> pb.DeleteAclsResponse:
        """Remove what fits each filter and tell which rules that were."""
        _bounded(len(request.filters), "filters")
        response = pb.DeleteAclsResponse()
        for message in request.filters:
            try:
                self._check(context.principal, Operation.ALTER)
                removed = await acl_rules.remove_rules(
                    self._coordination, self._view, filter_of(message)
                )
            except (RefusedError, CoordinationError) as error:
                response.results.add(error_code=_code(error), error_message=_words(error))
            else:
                response.results.add(rules=[rule_message(rule) for rule in removed])
        return response

    async def describe(
        self, request: pb.DescribeAclsRequest, context: CallContext
    ) -> pb.DescribeAclsResponse:
        """Return the rules that fit a filter, as stored now."""
        try:
            self._check(context.principal, Operation.DESCRIBE)
            found = await acl_rules.find_rules(
                self._coordination, self._view, filter_of(request.filter)
            )
        except (RefusedError, CoordinationError) as error:
            return pb.DescribeAclsResponse(error_code=_code(error), error_message=_words(error))
        return pb.DescribeAclsResponse(rules=[rule_message(rule) for rule in found])

    def _check(self, principal: str, operation: Operation) -> None:
        if not self._enabled:
            raise RefusedError(
                ErrorCode.SECURITY_DISABLED,
                "this cluster has no access rules; start its processes with authorizer = acl and "
                "super_users",
            )
        self._access.cluster(principal, operation)


def rule_of(message: pb.AclRule) -> AclRule:
    """Return the rule of a message.

    Raises:
        RefusedError: INVALID_REQUEST; a field is missing, or ANY, or not known here.
    """
    try:
        return AclRule(
            message.principal,
            _PERMISSIONS[message.permission],
            _OPERATIONS[message.operation],
            _RESOURCES[message.resource_type],
            message.resource_name,
            _PATTERNS[message.pattern_type],
        )
    except KeyError:
        raise invalid_request(
            "an access rule needs resource_type, pattern_type, operation and permission, each one "
            "of those that this version knows and none of them ANY"
        ) from None


def rule_message(rule: AclRule) -> pb.AclRule:
    """Return the message of a rule."""
    return pb.AclRule(
        resource_type=f"ACL_RESOURCE_TYPE_{rule.resource.name}",
        resource_name=rule.name,
        pattern_type=f"ACL_PATTERN_TYPE_{rule.pattern.name}",
        principal=rule.principal,
        operation=f"ACL_OPERATION_{rule.operation.name if rule.operation else 'ALL'}",
        permission=f"ACL_PERMISSION_{rule.permission.name}",
    )


def filter_of(message: pb.AclFilter) -> Callable[[AclRule], bool]:
    """Return whether a rule is one that a filter asks for; an empty filter asks for all."""

    def wanted(rule: AclRule) -> bool:
        found = rule_message(rule)
        return (
            message.resource_type in (*_ANY, found.resource_type)
            and message.pattern_type in (*_ANY, found.pattern_type)
            and message.operation in (*_ANY, found.operation)
            and message.permission in (*_ANY, found.permission)
            and (not message.HasField("resource_name") or message.resource_name == rule.name)
            and (not message.HasField("principal") or message.principal == rule.principal)
        )

    return wanted


def _bounded(count: int, what: str) -> None:
    if count > OPERATIONS_MAX:
        raise CallFailedError(
            Failure.INVALID_ARGUMENT, f"{count} {what}; send at most {OPERATIONS_MAX} at once"
        )


def _refuse(result: pb.AclResult, error: RefusedError | CoordinationError) -> None:
    result.error_code, result.error_message = _code(error), _words(error)


def _code(error: RefusedError | CoordinationError) -> int:
    return error.error if isinstance(error, RefusedError) else ErrorCode.REQUEST_TIMED_OUT


def _words(error: RefusedError | CoordinationError) -> str:
    return error.message if isinstance(error, RefusedError) else f"{error}; it may be repeated"
