"""ListGroups, ShareGroupDescribe and DeleteGroups: share groups are the only ones."""

import struct
from collections.abc import Mapping

from sharemesh.authorization.permitted_operations import NOT_ASKED_FOR
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId
from sharemesh.domain.share_group.group import GroupState
from sharemesh.kafka.messages import Content, error_code, milliseconds, to_uuid
from sharemesh.kafka_listener.compact import compact_length, compact_text, nullable_text
from sharemesh.kafka_listener.failures import heartbeat_code
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.v1 import group_coordinator_pb2 as pb

WITH_MESSAGES = 3
"""DeleteGroups of this version tells why a group was not deleted; kio ends before it."""

_PROTOCOL = "share"
_NOT_THERE = "classic"
_HEAD = struct.Struct(">iBi")  # correlation id, no tagged fields, throttle time


def list_request(seen: SeenRequest) -> pb.ListGroupsRequest:
    """Return our request; states that no share group has are those of no group."""
    states = getattr(seen.message, "states_filter", ())
    types = list(getattr(seen.message, "types_filter", ()))
    known = {each.lower() for each in GroupState}
    wanted = [each for each in states if each.strip().lower() in known]
    if states and not wanted:
        types = [_NOT_THERE]
    return pb.ListGroupsRequest(states_filter=wanted, types_filter=types)


def list_answer(seen: SeenRequest, response: pb.ListGroupsResponse) -> Content:
    """Return Kafka's answer: the groups that this process coordinates."""
    return _listed(seen, response.error_code, response)


def list_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return _listed(seen, code, pb.ListGroupsResponse(error_message=message))


def describe_request(seen: SeenRequest) -> pb.ShareGroupDescribeRequest:
    """Return our request."""
    return pb.ShareGroupDescribeRequest(
        group_ids=seen.message.group_ids,
        include_authorized_operations=seen.message.include_authorized_operations,
    )


def describe_answer(_: SeenRequest, response: pb.ShareGroupDescribeResponse) -> Content:
    """Return Kafka's answer."""
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "groups": [_described(each) for each in response.groups],
    }


def describe_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return {
        "throttle_time": milliseconds(0),
        "groups": [
            _described(
                pb.DescribedShareGroup(group_id=each, error_code=code, error_message=message)
            )
            for each in seen.message.group_ids
        ],
    }


def delete_request(seen: SeenRequest) -> pb.DeleteGroupsRequest:
    """Return our request."""
    return pb.DeleteGroupsRequest(group_ids=seen.message.groups_names)


def delete_answer(_: SeenRequest, response: pb.DeleteGroupsResponse) -> Content:
    """Return Kafka's answer."""
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "results": [
            {
                "group_id": each.group_id,
                "error_code": error_code(heartbeat_code(each.error_code)),
                "error_message": each.error_message,
            }
            for each in response.results
        ],
    }


def delete_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    return delete_answer(
        seen,
        pb.DeleteGroupsResponse(
            results=[
                pb.DeletedGroup(group_id=each, error_code=code, error_message=message)
                for each in seen.message.groups_names
            ]
        ),
    )


def deleted_with_messages(correlation: int, content: Mapping[str, object]) -> bytes:
    """Return the whole frame of an answer of version 3."""
    results: list[Mapping[str, object]] = content["results"]  # type: ignore[assignment]
    throttle_ms = content["throttle_time"] // milliseconds(1)  # type: ignore[operator]
    packed = bytearray(_HEAD.pack(correlation, 0, throttle_ms))
    packed += compact_length(len(results))
    for each in results:
        packed += compact_text(str(each["group_id"]))
        packed += struct.pack(">h", each["error_code"])
        packed += nullable_text(str(each["error_message"]))
        packed += b"\0"
    packed += b"\0"
    return struct.pack(">i", len(packed)) + packed


def _listed(_: SeenRequest, code: int, response: pb.ListGroupsResponse) -> Content:
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "error_code": error_code(heartbeat_code(code)),
        "groups": [
            {
                "group_id": each.group_id,
                "protocol_type": _PROTOCOL,
                "group_state": each.group_state,
                "group_type": each.group_type,
            }
            for each in response.groups
        ],
    }


def _described(group: pb.DescribedShareGroup) -> dict[str, object]:
    code = heartbeat_code(group.error_code)
    if code == ErrorCode.GROUP_ID_NOT_FOUND and not group.group_id:
        code = ErrorCode.INVALID_GROUP_ID
    return {
        "error_code": error_code(code),
        "error_message": group.error_message or None,
        "group_id": group.group_id,
        "group_state": "" if group.error_code else group.group_state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.assignor_name,
        "members": [_member(each) for each in group.members],
        "authorized_operations": (
            NOT_ASKED_FOR if group.error_code else group.authorized_operations
        ),
    }


def _member(member: pb.ShareGroupMember) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id or None,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": tuple(member.subscribed_topic_names),
        "assignment": {
            "topic_partitions": [
                {
                    "topic_id": to_uuid(TopicId(each.topic_id)),
                    "topic_name": each.topic_name,
                    "partitions": tuple(each.partitions),
                }
                for each in member.assignment.topic_partitions
            ]
        },
    }
