"""Quotas, described and altered (spec QUO-7, QUO-8)."""

from collections import Counter
from collections.abc import Mapping, Sequence

from sharemesh.authorization.access import Access
from sharemesh.authorization.slices import Slices
from sharemesh.cluster.store import quota_records
from sharemesh.cluster.store.records import RecordFormatError
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.quota.names import EntityType, QuotaEntity, QuotaName
from sharemesh.domain.quota.values import quota_named
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as pb

PARTS_MAX = 100
"""Entries of a request, operations of an entry, components of an entity or a filter."""

_TYPES = {each.value: each for each in EntityType}
_SHOWN = 100  # characters of what was sent, in a refusal


class QuotaAdmin:
    """Changing quotas needs ALTER_CONFIGS on the cluster, seeing them DESCRIBE_CONFIGS."""

    def __init__(
        self, coordination: Coordination, view: ClusterView, access: Access, clock: Clock
    ) -> None:
        self._coordination = coordination
        self._view = view
        self._access = access
        self._clock = clock

    async def alter(
        self, request: pb.AlterClientQuotasRequest, context: CallContext
    ) -> pb.AlterClientQuotasResponse:
        """Change the quotas of each entry, all of them or none; a refused one leaves the others."""
        _bounded(len(request.entries), "entries")
        for entry in request.entries:
            _bounded(len(entry.ops), "operations in an entry")
            _bounded(len(entry.entity), "components of an entity")
        times = Counter(_identity(entry.entity) for entry in request.entries)
        response = pb.AlterClientQuotasResponse()
        for entry in request.entries:
            error, words = ErrorCode.NONE, ""
            try:
                self._access.cluster(context.principal, Operation.ALTER_CONFIGS)
                if times[_identity(entry.entity)] > 1:
                    raise invalid_request("this entity stands in two entries; name each one once")
                await quota_records.alter_quotas(
                    self._coordination,
                    self._view,
                    entity := _entity_of(entry.entity),
                    _changes_of(entry.ops, entity.entity_type),
                    validate_only=request.validate_only,
                )
            except RefusedError as refused:
                error, words = refused.error, refused.message
            except CoordinationError as lost:
                error = ErrorCode.REQUEST_TIMED_OUT
                words = f"{lost}; check whether the change took effect before you repeat it"
            response.results.add(error_code=error, error_message=words, entity=entry.entity)
        return response

    async def describe(
        self, request: pb.DescribeClientQuotasRequest, context: CallContext
    ) -> pb.DescribeClientQuotasResponse:
        """Return the entities that a filter matches with their own values, as stored now."""
        _bounded(len(request.components), "components")
        try:
            self._access.cluster(context.principal, Operation.DESCRIBE_CONFIGS)
            wanted = _Filter(request)
            stored = await quota_records.list_quotas(self._coordination, self._view)
        except RefusedError as error:
            return pb.DescribeClientQuotasResponse(
                error_code=error.error, error_message=error.message
            )
        except CoordinationError as error:
            return pb.DescribeClientQuotasResponse(
                error_code=ErrorCode.REQUEST_TIMED_OUT,
                error_message=f"{error}; it may be repeated",
            )
        response = pb.DescribeClientQuotasResponse()
        slices = Slices(self._clock, context.principal)
        for entity, found in stored:
            await slices.spend()
            if wanted.matches(entity):
                _describe(entity, found.value, response)
        return response


class _Filter:
    """Which entities a request asks for.

    Raises:
        RefusedError: INVALID_REQUEST, UNSUPPORTED_VERSION; the filter makes no sense.
    """

    def __init__(self, request: pb.DescribeClientQuotasRequest) -> None:
        self._all = not request.components and not request.strict
        self._wanted = [_checked(each) for each in request.components]
        if len({each.entity_type for each in self._wanted}) < len(self._wanted):
            raise invalid_request("a filter names each entity type once")

    def matches(self, entity: QuotaEntity) -> bool:
        """Return whether the one component of an entity is the one that is asked for."""
        if len(self._wanted) != 1:
            return self._all
        (wanted,) = self._wanted
        if wanted.entity_type != entity.entity_type.value:
            return False
        if wanted.match == pb.QUOTA_MATCH_EXACT:
            return entity.name == wanted.match_text
        return wanted.match == pb.QUOTA_MATCH_ANY or entity.name is None


def _checked(component: pb.QuotaFilterComponent) -> pb.QuotaFilterComponent:
    if not component.entity_type:
        raise invalid_request(f"a filter needs entity types: {' or '.join(_TYPES)}")
    if component.entity_type not in _TYPES:
        raise RefusedError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"entity type {component.entity_type[:_SHOWN]!r}: quotas bind {' and '.join(_TYPES)} "
            "here",
        )
    if component.match not in pb.QuotaMatch.values():
        raise invalid_request(f"match {component.match}: send EXACT (0), DEFAULT (1) or ANY (2)")
    if (component.match == pb.QUOTA_MATCH_EXACT) != component.HasField("match_text"):
        raise invalid_request("an exact match needs match_text, and no other match may have it")
    return component


def _describe(entity: QuotaEntity, value: bytes, response: pb.DescribeClientQuotasResponse) -> None:
    try:
        known = quota_records.decode_quotas(entity, value).known
    except RecordFormatError:
        return  # each process says so in its log (QUO-2)
    if known:
        response.entries.add(
            entity=[pb.QuotaEntity(entity_type=entity.entity_type.value, entity_name=entity.name)],
            values=[
                pb.QuotaValue(key=name.value, value=known[name])
                for name in sorted(known, key=lambda name: name.value)
            ],
        )


def _entity_of(components: Sequence[pb.QuotaEntity]) -> QuotaEntity:
    if len(components) != 1:
        raise invalid_request(
            f"an entity of {len(components)} components; send one, of type {' or '.join(_TYPES)}"
        )
    (component,) = components
    entity_type = _TYPES.get(component.entity_type)
    if entity_type is None:
        raise invalid_request(
            f"entity type {component.entity_type[:_SHOWN]!r}: quotas bind {' and '.join(_TYPES)} "
            "here"
        )
    name = component.entity_name if component.HasField("entity_name") else None
    return QuotaEntity(entity_type, name)


def _changes_of(
    operations: Sequence[pb.QuotaOperation], entity_type: EntityType
) -> Mapping[QuotaName, float | None]:
    changes = {
        quota_named(each.key, entity_type): None if each.remove else each.value
        for each in operations
    }
    if len(changes) != len(operations):
        raise invalid_request("a quota is named twice; name each one once")
    return changes


def _identity(components: Sequence[pb.QuotaEntity]) -> tuple[bytes, ...]:
    return tuple(each.SerializeToString(deterministic=True) for each in components)


def _bounded(count: int, what: str) -> None:
    if count > PARTS_MAX:
        raise CallFailedError(
            Failure.INVALID_ARGUMENT, f"{count} {what}; send at most {PARTS_MAX} at once"
        )
