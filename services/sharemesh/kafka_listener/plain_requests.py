"""Requests that one call of one method answers: the method, and the translators around it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import Content
from sharemesh.kafka_listener.served_requests import ServedRequest
from sharemesh.kafka_listener.translation import (
    acls,
    client_quotas,
    delete_records,
    group_offsets,
    groups,
    scram_users,
    topics,
)
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.methods import Method


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """What stands around one call.

    ``elsewhere`` is what a process says that has not the role for it, so that a client looks for
    another.
    """

    method: Method[Any, Any]
    to_request: Callable[[SeenRequest], Message]
    to_answer: Callable[[SeenRequest, Any], Content]
    refused: Callable[[SeenRequest, int, str], Content]
    elsewhere: ErrorCode


_COORDINATOR = ErrorCode.NOT_COORDINATOR
_ANYBODY = ErrorCode.UNKNOWN_SERVER_ERROR

PLAIN_REQUESTS = {
    ServedRequest.LIST_GROUPS: PlainRequest(
        methods.LIST_GROUPS,
        groups.list_request,
        groups.list_answer,
        groups.list_refused,
        ErrorCode.NONE,  # clients ask every process: this one coordinates no group
    ),
    ServedRequest.SHARE_GROUP_DESCRIBE: PlainRequest(
        methods.SHARE_GROUP_DESCRIBE,
        groups.describe_request,
        groups.describe_answer,
        groups.describe_refused,
        _COORDINATOR,
    ),
    ServedRequest.DELETE_GROUPS: PlainRequest(
        methods.DELETE_GROUPS,
        groups.delete_request,
        groups.delete_answer,
        groups.delete_refused,
        _COORDINATOR,
    ),
    ServedRequest.DESCRIBE_SHARE_GROUP_OFFSETS: PlainRequest(
        methods.DESCRIBE_SHARE_GROUP_OFFSETS,
        group_offsets.describe_request,
        group_offsets.describe_answer,
        group_offsets.describe_refused,
        _COORDINATOR,
    ),
    ServedRequest.ALTER_SHARE_GROUP_OFFSETS: PlainRequest(
        methods.ALTER_SHARE_GROUP_OFFSETS,
        group_offsets.alter_request,
        group_offsets.changed_answer,
        group_offsets.alter_refused,
        _COORDINATOR,
    ),
    ServedRequest.DELETE_SHARE_GROUP_OFFSETS: PlainRequest(
        methods.DELETE_SHARE_GROUP_OFFSETS,
        group_offsets.delete_request,
        group_offsets.changed_answer,
        group_offsets.delete_refused,
        _COORDINATOR,
    ),
    ServedRequest.CREATE_TOPICS: PlainRequest(
        methods.CREATE_TOPICS,
        topics.create_request,
        topics.create_answer,
        topics.create_refused,
        _ANYBODY,
    ),
    ServedRequest.DELETE_TOPICS: PlainRequest(
        methods.DELETE_TOPICS,
        topics.delete_request,
        topics.delete_answer,
        topics.delete_refused,
        _ANYBODY,
    ),
    ServedRequest.CREATE_PARTITIONS: PlainRequest(
        methods.CREATE_PARTITIONS,
        topics.grow_request,
        topics.grow_answer,
        topics.grow_refused,
        _ANYBODY,
    ),
    ServedRequest.DELETE_RECORDS: PlainRequest(
        methods.DELETE_RECORDS,
        delete_records.to_request,
        delete_records.to_answer,
        delete_records.refused,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ),
    ServedRequest.DESCRIBE_ACLS: PlainRequest(
        methods.DESCRIBE_ACLS,
        acls.describe_request,
        acls.describe_answer,
        acls.describe_refused,
        _ANYBODY,
    ),
    ServedRequest.CREATE_ACLS: PlainRequest(
        methods.CREATE_ACLS,
        acls.create_request,
        acls.create_answer,
        acls.create_refused,
        _ANYBODY,
    ),
    ServedRequest.DELETE_ACLS: PlainRequest(
        methods.DELETE_ACLS,
        acls.delete_request,
        acls.delete_answer,
        acls.delete_refused,
        _ANYBODY,
    ),
    ServedRequest.DESCRIBE_CLIENT_QUOTAS: PlainRequest(
        methods.DESCRIBE_CLIENT_QUOTAS,
        client_quotas.describe_request,
        client_quotas.describe_answer,
        client_quotas.describe_refused,
        _ANYBODY,
    ),
    ServedRequest.ALTER_CLIENT_QUOTAS: PlainRequest(
        methods.ALTER_CLIENT_QUOTAS,
        client_quotas.alter_request,
        client_quotas.alter_answer,
        client_quotas.alter_refused,
        _ANYBODY,
    ),
    ServedRequest.DESCRIBE_USER_SCRAM_CREDENTIALS: PlainRequest(
        methods.DESCRIBE_USER_SCRAM_CREDENTIALS,
        scram_users.describe_request,
        scram_users.describe_answer,
        scram_users.describe_refused,
        _ANYBODY,
    ),
    ServedRequest.ALTER_USER_SCRAM_CREDENTIALS: PlainRequest(
        methods.ALTER_USER_SCRAM_CREDENTIALS,
        scram_users.alter_request,
        scram_users.alter_answer,
        scram_users.alter_refused,
        _ANYBODY,
    ),
}
"""Translators take a request as it was seen; each method's permission is that of its handler."""
