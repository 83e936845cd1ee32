"""Settings of topics and of the cluster, described and altered."""

from collections.abc import Mapping, Sequence

from sharemesh.admin.topic_stores import TopicStore
from sharemesh.authorization.access import Access
from sharemesh.authorization.slices import Slices
from sharemesh.cluster.store import configs
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.group_config.cluster_definitions import CLUSTER_CONFIGS
from sharemesh.domain.group_config.definition import ConfigDefinition
from sharemesh.domain.group_config.evaluate import MAX_ENTRIES
from sharemesh.domain.topics import TOPIC_CONFIGS
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as pb
from sharemesh.v1 import common_pb2

MAX_RESOURCES = 1_000
_UNITS_OF_A_RESOURCE = 10
"""What it costs to tell the settings of one resource, in units of a slice (BND-20)."""

_TOPIC = pb.CONFIG_RESOURCE_TYPE_TOPIC
_CLUSTER = pb.CONFIG_RESOURCE_TYPE_CLUSTER


class ConfigAdmin:
    """Settings of groups are the group coordinator's; these are the others."""

    def __init__(
        self,
        coordination: Coordination,
        view: ClusterView,
        access: Access,
        store: TopicStore,
        clock: Clock,
    ) -> None:
        self._store = store
        self._clock = clock
        self._coordination = coordination
        self._view = view
        self._access = access

    async def describe(
        self, request: pb.DescribeConfigsRequest, context: CallContext
    ) -> pb.DescribeConfigsResponse:
        """Return every setting of each resource, in force now, and where it comes from."""
        if len(request.resources) > MAX_RESOURCES:
            raise CallFailedError(
                Failure.INVALID_ARGUMENT,
                f"{len(request.resources)} resources; ask for at most {MAX_RESOURCES} at once",
            )
        response = pb.DescribeConfigsResponse()
        slices = Slices(self._clock, context.principal)
        for resource in request.resources:
            await slices.spend(_UNITS_OF_A_RESOURCE)
            try:
                configs = await self._described(resource, context)
            except RefusedError as error:
                response.results.add(
                    resource=resource, error_code=error.error, error_message=error.message
                )
            else:
                response.results.add(resource=resource, configs=configs)
        return response

    async def alter(
        self, request: pb.AlterConfigsRequest, context: CallContext
    ) -> pb.AlterConfigsResponse:
        """Change settings of one resource; all of them or none (absent value: the default)."""
        try:
            await self._alter(request, context)
        except RefusedError as error:
            return pb.AlterConfigsResponse(error_code=error.error, error_message=error.message)
        except CoordinationError as error:
            return pb.AlterConfigsResponse(
                error_code=ErrorCode.REQUEST_TIMED_OUT,
                error_message=f"{error}; check whether the change took effect before you repeat it",
            )
        return pb.AlterConfigsResponse()

    async def _described(
        self, resource: pb.ConfigResource, context: CallContext
    ) -> list[common_pb2.ConfigEntry]:
        if resource.type == _CLUSTER:
            self._access.cluster(context.principal, Operation.DESCRIBE_CONFIGS)
            return _entries(CLUSTER_CONFIGS, self._view.cluster_configs(), "cluster")
        if resource.type == _TOPIC:
            self._access.topic(context.principal, Operation.DESCRIBE_CONFIGS, resource.name)
            topic = self._view.topic_named(resource.name)
            if topic is None:
                raise RefusedError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {resource.name[:100]!r} does not exist; correct the name",
                )
            return _entries(TOPIC_CONFIGS, await self._store.configs(topic), "topic")
        raise _unknown(resource)

    async def _alter(self, request: pb.AlterConfigsRequest, context: CallContext) -> None:
        resource = request.resource
        if resource.type == _CLUSTER:
            self._access.cluster(context.principal, Operation.ALTER_CONFIGS)
            await configs.alter_cluster_configs(
                self._coordination,
                self._view,
                _changes_of(request.configs),
                validate_only=request.validate_only,
            )
        elif resource.type == _TOPIC:
            self._access.topic(context.principal, Operation.ALTER_CONFIGS, resource.name)
            await self._store.alter_configs(
                resource.name, _changes_of(request.configs), validate_only=request.validate_only
            )
        else:
            raise _unknown(resource)


def _changes_of(altered: Sequence[pb.AlterConfig]) -> dict[str, str | None]:
    if len(altered) > MAX_ENTRIES:
        raise invalid_request(f"{len(altered)} settings in one call; send at most {MAX_ENTRIES}")
    changes = {each.name: each.value if each.HasField("value") else None for each in altered}
    if len(changes) != len(altered):
        raise invalid_request("a setting is named twice; name each one once")
    return changes


def _entries(
    definitions: Mapping[str, ConfigDefinition], stored: Mapping[str, str], source: str
) -> list[common_pb2.ConfigEntry]:
    return [
        common_pb2.ConfigEntry(
            name=name,
            value=stored.get(name, definition.default),
            source=source if name in stored else "default",
            documentation=definition.documentation,
        )
        for name, definition in sorted(definitions.items())
        if not definition.unsupported
    ]


def _unknown(resource: pb.ConfigResource) -> RefusedError:
    return invalid_request(
        f"resource type {resource.type}: only topic (2) and cluster (4) have settings here; ask "
        "the group coordinator for those of groups"
    )
