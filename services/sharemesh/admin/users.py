"""Users with passwords, described and altered; what is kept of a password is never told."""

from collections import Counter
from collections.abc import Iterable, Mapping

from sharemesh.authorization.access import Access
from sharemesh.cluster.store import user_records
from sharemesh.cluster.store.user_records import CredentialChanges, Credentials
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.scram_credentials import ScramCredential, ScramMechanism
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as pb

USERS_AT_ONCE_MAX = 100
"""Users of one request."""

_MECHANISMS = {
    pb.SCRAM_MECHANISM_SHA_256: ScramMechanism.SHA_256,
    pb.SCRAM_MECHANISM_SHA_512: ScramMechanism.SHA_512,
}
_NUMBERS = {mechanism: number for number, mechanism in _MECHANISMS.items()}
_BY_NUMBER: Mapping[int, ScramMechanism] = {int(key): each for key, each in _MECHANISMS.items()}


class UserAdmin:
    """Changing users needs ALTER on the cluster, seeing them DESCRIBE."""

    def __init__(self, coordination: Coordination, view: ClusterView, access: Access) -> None:
        self._coordination = coordination
        self._view = view
        self._access = access

    async def alter(
        self, request: pb.AlterUserScramCredentialsRequest, context: CallContext
    ) -> pb.AlterUserScramCredentialsResponse:
        """Change users, each wholly or not at all; a refused one leaves the others."""
        _bounded(len(request.alterations))
        times = Counter(each.name for each in request.alterations)
        response = pb.AlterUserScramCredentialsResponse()
        for each in request.alterations:
            error, words = ErrorCode.NONE, ""
            try:
                self._access.cluster(context.principal, Operation.ALTER)
                if times[each.name] > 1:
                    raise invalid_request("this user stands in two alterations; name each one once")
                changes = _changes_of(each)
                await user_records.alter_user(self._coordination, self._view, each.name, changes)
            except RefusedError as refused:
                error, words = refused.error, refused.message
            except CoordinationError as lost:
                error, words = ErrorCode.REQUEST_TIMED_OUT, f"{lost}; it may be repeated"
            response.results.add(error_code=error, error_message=words, name=each.name)
        return response

    async def describe(
        self, request: pb.DescribeUserScramCredentialsRequest, context: CallContext
    ) -> pb.DescribeUserScramCredentialsResponse:
        """Return users and the mechanisms for which they have passwords, as stored now."""
        _bounded(len(request.names))
        try:
            self._access.cluster(context.principal, Operation.DESCRIBE)
            stored = dict(await user_records.list_users(self._coordination, self._view))
        except RefusedError as error:
            return pb.DescribeUserScramCredentialsResponse(
                error_code=error.error, error_message=error.message
            )
        except CoordinationError as error:
            return pb.DescribeUserScramCredentialsResponse(
                error_code=ErrorCode.REQUEST_TIMED_OUT,
                error_message=f"{error}; it may be repeated",
            )
        names: Iterable[str] = dict.fromkeys(request.names) or stored
        return pb.DescribeUserScramCredentialsResponse(
            results=[_described(name, stored.get(name)) for name in names]
        )


def _described(name: str, credentials: Credentials | None) -> pb.DescribedUser:
    if not credentials:
        return pb.DescribedUser(
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"user {name[:100]!r} has no password here",
            name=name,
        )
    return pb.DescribedUser(
        name=name,
        credential_infos=[
            pb.ScramCredentialInfo(mechanism=_NUMBERS[mechanism], iterations=each.iterations)
            for mechanism, each in sorted(credentials.items())
        ],
    )


def _changes_of(altered: pb.UserAlteration) -> CredentialChanges:
    count = len(altered.deletions) + len(altered.upsertions)
    if count > 2 * len(_BY_NUMBER):  # more than one of each kind for each: not looked through
        raise invalid_request(f"{count} changes of a user; a mechanism has one change at most")
    changes: dict[ScramMechanism, ScramCredential | None] = {}
    for number in altered.deletions:
        changes[_mechanism(number)] = None
    for each in altered.upsertions:
        changes[_mechanism(each.mechanism)] = ScramCredential(
            each.salt, each.iterations, each.stored_key, each.server_key
        )
    if not changes:
        raise invalid_request("nothing to change: send upsertions or deletions")
    if len(changes) < count:
        raise invalid_request("a mechanism stands in two changes of a user; name each one once")
    return changes


def _mechanism(number: int) -> ScramMechanism:
    found = _BY_NUMBER.get(number)
    if found is None:
        raise invalid_request(f"mechanism {number}: send SHA_256 (1) or SHA_512 (2)")
    return found


def _bounded(count: int) -> None:
    if count > USERS_AT_ONCE_MAX:
        raise CallFailedError(
            Failure.INVALID_ARGUMENT, f"{count} users; send at most {USERS_AT_ONCE_MAX} at once"
        )
