"""DescribeUserScramCredentials and AlterUserScramCredentials: users with passwords."""

from sharemesh.domain.scram_credentials import ScramMechanism, credential_of
from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.v1 import admin_pb2 as pb

_USERS_MAX = 100
"""More are refused by the handler: nothing is derived for them."""

_MECHANISMS = {1: ScramMechanism.SHA_256, 2: ScramMechanism.SHA_512}


def describe_request(seen: SeenRequest) -> pb.DescribeUserScramCredentialsRequest:
    """Return our request; neither a list of users nor an empty one: all of them."""
    return pb.DescribeUserScramCredentialsRequest(
        names=[each.name for each in seen.message.users or ()]
    )


def describe_answer(_: SeenRequest, response: pb.DescribeUserScramCredentialsResponse) -> Content:
    """Return Kafka's answer."""
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "error_code": error_code(response.error_code),
        "error_message": response.error_message or None,
        "results": [
            {
                "user": each.name,
                "error_code": error_code(each.error_code),
                "error_message": each.error_message or None,
                "credential_infos": [
                    {"mechanism": info.mechanism, "iterations": info.iterations}
                    for info in each.credential_infos
                ],
            }
            for each in response.results
        ],
    }


def describe_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    refused = pb.DescribeUserScramCredentialsResponse(error_code=code, error_message=message)
    return describe_answer(seen, refused)


def alter_request(seen: SeenRequest) -> pb.AlterUserScramCredentialsRequest:
    """Return our request: changes by user, with what is kept in place of the salted password."""
    users = _users(seen)
    request = pb.AlterUserScramCredentialsRequest()
    for name, (deletions, upsertions) in users.items():
        derives = len(users) <= _USERS_MAX and len(upsertions) <= len(_MECHANISMS)
        request.alterations.add(
            name=name,
            deletions=[each.mechanism for each in deletions],
            upsertions=[_kept(each, derives=derives) for each in upsertions],
        )
    return request


def alter_answer(_: SeenRequest, response: pb.AlterUserScramCredentialsResponse) -> Content:
    """Return Kafka's answer: one result a user."""
    return {
        "throttle_time": milliseconds(response.throttle_time_ms),
        "results": [
            {
                "user": each.name,
                "error_code": error_code(each.error_code),
                "error_message": each.error_message or None,
            }
            for each in response.results
        ],
    }


def alter_refused(seen: SeenRequest, code: int, message: str) -> Content:
    """Return the answer to a request that was refused as a whole."""
    refusals = [
        pb.AlteredUser(name=name, error_code=code, error_message=message) for name in _users(seen)
    ]
    return alter_answer(seen, pb.AlterUserScramCredentialsResponse(results=refusals))


def _users(seen: SeenRequest) -> dict[str, tuple[list[KafkaMessage], list[KafkaMessage]]]:
    """Return deletions and upsertions by user, in the order in which users are named first."""
    found: dict[str, tuple[list[KafkaMessage], list[KafkaMessage]]] = {}
    for place, changes in enumerate((seen.message.deletions, seen.message.upsertions)):
        for each in changes:
            found.setdefault(each.name, ([], []))[place].append(each)
    return found


def _kept(upsertion: KafkaMessage, *, derives: bool) -> pb.ScramCredential:
    """Return what is kept; a change that the handler refuses anyway has no keys."""
    mechanism = _MECHANISMS.get(upsertion.mechanism)
    kept = pb.ScramCredential(
        mechanism=upsertion.mechanism, iterations=upsertion.iterations, salt=upsertion.salt
    )
    if mechanism is not None and derives:
        found = credential_of(
            mechanism, upsertion.salted_password, upsertion.salt, upsertion.iterations
        )
        kept.stored_key, kept.server_key = found.stored_key, found.server_key
    return kept
