"""DescribeAcls, CreateAcls and DeleteAcls; rules here are about principals, from every host."""

from collections.abc import Iterable

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.v1 import admin_pb2 as pb

_MATCH, _PREFIXED = 2, 4
_EVERY_HOST = "*"
_EVERY_NAME = "*"
_WRONG_HOST = "access rules hold for every host here: leave the host out, or send *"
_NO_MATCH_TO_DELETE = (
    "rules are removed by pattern LITERAL, PREFIXED or ANY: list those that match, then remove them"
)


def describe_request(seen: SeenRequest) -> pb.DescribeAclsRequest:
    """Return our request; for pattern MATCH all rules of the type, which the answer sifts."""
    asked = _filter(seen.message)
    if seen.message.pattern_type_filter == _MATCH:
        asked.pattern_type = pb.ACL_PATTERN_TYPE_ANY
        asked.ClearField("resource_name")
    return pb.DescribeAclsRequest(filter=asked)


def describe_answer(seen: SeenRequest, response: pb.DescribeAclsResponse) -> Content:
    """Return Kafka's answer: rules by their resource."""
    found = [each for each in response.rules if _is_meant(seen.message, each)]
    resources: dict[tuple[int, str, int], list[dict[str, object]]] = {}
    for each in found:
        key = (each.resource_type, each.resource_name, each.pattern_type)
        resources.setdefault(key, []).append(_rule(each))
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "error_code": error_code(response.error_code),
        "error_message": response.error_message or None,
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "pattern_type": pattern,
                "acls": acls,
            }
            for (kind, name, pattern), acls in resources.items()
        ],
    }


def describe_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused."""
    return describe_answer(seen, pb.DescribeAclsResponse(error_code=code, error_message=message))


def create_request(seen: SeenRequest) -> pb.CreateAclsRequest:
    """Return our request: of those that are about every host."""
    return pb.CreateAclsRequest(
        rules=[
            pb.AclRule(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                pattern_type=each.resource_pattern_type,
                principal=each.principal,
                operation=each.operation,
                permission=each.permission_type,
            )
            for each in seen.message.creations
            if each.host == _EVERY_HOST
        ]
    )


def create_answer(seen: SeenRequest, response: pb.CreateAclsResponse) -> Content:
    """Return Kafka's answer, in the order of the request."""
    results = iter(response.results)
    refusal = pb.AclResult(error_code=ErrorCode.INVALID_REQUEST, error_message=_WRONG_HOST)
    told = [
        next(results) if each.host == _EVERY_HOST else refusal for each in seen.message.creations
    ]
    return _created(told, response.throttle_time_ms)


def create_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    refusal = pb.AclResult(error_code=code, error_message=message)
    return _created([refusal for _ in seen.message.creations], 0)


def delete_request(seen: SeenRequest) -> pb.DeleteAclsRequest:
    """Return our request: of filters that can be passed on."""
    return pb.DeleteAclsRequest(
        filters=[_filter(each) for each in seen.message.filters if _may_delete(each)]
    )


def delete_answer(seen: SeenRequest, response: pb.DeleteAclsResponse) -> Content:
    """Return Kafka's answer, in the order of the request."""
    results = iter(response.results)
    told = []
    for each in seen.message.filters:
        if _may_delete(each):
            told.append(next(results))
        elif each.pattern_type_filter == _MATCH:
            code = ErrorCode.INVALID_REQUEST
            told.append(pb.DeletedAcls(error_code=code, error_message=_NO_MATCH_TO_DELETE))
        else:
            told.append(pb.DeletedAcls())  # no rule is about another host
    return _deleted(told, response.throttle_time_ms)


def delete_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    refusal = pb.DeletedAcls(error_code=code, error_message=message)
    return _deleted([refusal for _ in seen.message.filters], 0)


def _filter(asked: KafkaMessage) -> pb.AclFilter:
    found = pb.AclFilter(
        resource_type=asked.resource_type_filter,
        pattern_type=asked.pattern_type_filter,
        operation=asked.operation,
        permission=asked.permission_type,
    )
    if asked.resource_name_filter is not None:
        found.resource_name = asked.resource_name_filter
    if asked.principal_filter is not None:
        found.principal = asked.principal_filter
    return found


def _may_delete(asked: KafkaMessage) -> bool:
    return asked.host_filter in (None, _EVERY_HOST) and asked.pattern_type_filter != _MATCH


def _is_meant(asked: KafkaMessage, rule: pb.AclRule) -> bool:
    """Return whether a rule is about the host, and matches the name where MATCH was asked for."""
    if asked.host_filter not in (None, _EVERY_HOST):
        return False
    name = asked.resource_name_filter
    if asked.pattern_type_filter != _MATCH or name is None:
        return True
    if rule.pattern_type == _PREFIXED:
        return bool(name.startswith(rule.resource_name))
    return rule.resource_name in (name, _EVERY_NAME)


def _rule(rule: pb.AclRule) -> dict[str, object]:
    return {
        "principal": rule.principal,
        "host": _EVERY_HOST,
        "operation": rule.operation,
        "permission_type": rule.permission,
    }


def _created(results: Iterable[pb.AclResult], throttle_ms: int) -> Content:
    return {
        "throttle_time": milliseconds(throttle_ms),
        "results": [
            {
                "error_code": error_code(each.error_code),
                "error_message": each.error_message or None,
            }
            for each in results
        ],
    }


def _deleted(results: Iterable[pb.DeletedAcls], throttle_ms: int) -> Content:
    return {
        "throttle_time": milliseconds(throttle_ms),
        "filter_results": [
            {
                "error_code": error_code(each.error_code),
                "error_message": each.error_message or None,
                "matching_acls": [
                    {
                        "error_code": error_code(ErrorCode.NONE),
                        "error_message": None,
                        "resource_type": rule.resource_type,
                        "resource_name": rule.resource_name,
                        "pattern_type": rule.pattern_type,
                        **_rule(rule),
                    }
                    for rule in each.rules
                ],
            }
            for each in results
        ],
    }
