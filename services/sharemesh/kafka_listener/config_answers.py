"""Settings and lists of resources: requests that several calls answer, or none."""

from collections import Counter
from collections.abc import Iterator

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import Content, KafkaMessage
from sharemesh.kafka_listener.failures import code_of
from sharemesh.kafka_listener.group_config_calls import GroupConfigCalls, SilentShards
from sharemesh.kafka_listener.nodes import KafkaNodes
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.kafka_listener.translation import configs
from sharemesh.kafka_listener.translation.configs import Changes, Refused
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.network import CallContext, CallFailedError
from sharemesh.v1 import admin_pb2
from sharemesh.v1.common_pb2 import ConfigEntry

RESOURCES_MAX = 100
"""Resources of one request; each is asked for by itself."""

_TOO_MANY = Refused(
    ErrorCode.INVALID_REQUEST, f"more than {RESOURCES_MAX} resources: send fewer at once"
)
_TWICE = Refused(ErrorCode.INVALID_REQUEST, "the resource is named twice: name it once")


class ConfigAnswers:
    """Answers about settings, one resource after the other."""

    def __init__(
        self, handlers: OfferedHandlers, view: ClusterView, groups: GroupConfigCalls
    ) -> None:
        self._handlers = handlers
        self._view = view
        self._groups = groups

    async def describe(self, asked: KafkaMessage, context: CallContext) -> Content:
        """Return the answer to DescribeConfigs."""
        results = []
        silent: SilentShards = {}
        for number, resource in enumerate(asked.resources):
            refused = _TOO_MANY if number >= RESOURCES_MAX else self._refused(resource)
            found = refused or await self._described(resource, context, silent)
            results.append(configs.described(asked, resource, found))
        return configs.describe_answer(results)

    async def alter(self, asked: KafkaMessage, context: CallContext) -> Content:
        """Return the answer to IncrementalAlterConfigs."""
        named = Counter((each.resource_type, each.resource_name) for each in asked.resources)
        responses = []
        silent: SilentShards = {}
        for number, resource in enumerate(asked.resources):
            refused = _TOO_MANY if number >= RESOURCES_MAX else None
            if named[resource.resource_type, resource.resource_name] > 1:
                refused = _TWICE
            changes = configs.changes_of(resource)
            refused = refused or self._refused(resource, alters=True)
            if isinstance(changes, Refused):
                result: Refused | None = refused or changes
            else:
                result = refused or await self._altered(
                    resource, changes, context, silent, validate_only=asked.validate_only
                )
            responses.append(configs.altered(resource, result))
        return configs.alter_answer(responses)

    async def list_resources(
        self, version: int, asked: KafkaMessage, context: CallContext
    ) -> Content:
        """Return the answer to ListConfigResources: what has settings, or may have some.

        No method lists them: whoever may see settings of the cluster may see these.
        """
        seen = await self._entries(configs.OF_CLUSTER, context)
        if isinstance(seen, Refused):
            return configs.list_answer(seen.code, ())
        return configs.list_answer(
            ErrorCode.NONE, self._resources(configs.wanted_types(version, asked))
        )

    def _resources(self, kinds: tuple[int, ...]) -> Iterator[tuple[int, str]]:
        for kind in kinds:
            if kind == configs.TOPIC:
                yield from ((kind, each.name) for each in self._view.topics())
            elif kind == configs.BROKER:
                nodes = KafkaNodes(self._view.nodes())
                yield from ((kind, str(each.number)) for each in nodes.all)
            elif kind == configs.GROUP:
                yield from ((kind, each) for each in sorted(self._view.configured_groups()))

    def _refused(self, resource: KafkaMessage, *, alters: bool = False) -> Refused | None:
        return configs.unanswerable(resource, KafkaNodes(self._view.nodes()), alters=alters)

    async def _described(
        self, resource: KafkaMessage, context: CallContext, silent: SilentShards
    ) -> list[ConfigEntry] | Refused:
        if resource.resource_type == configs.GROUP:
            found = await self._groups.describe(resource.resource_name, context, silent)
            return found if isinstance(found, Refused) else list(found)
        return await self._entries(configs.our_resource(resource), context)

    async def _entries(
        self, resource: admin_pb2.ConfigResource, context: CallContext
    ) -> list[ConfigEntry] | Refused:
        request = admin_pb2.DescribeConfigsRequest(resources=[resource])
        try:
            response = await self._handlers.call(methods.DESCRIBE_CONFIGS, request, context)
        except CallFailedError as error:
            return _failed(error)
        [result] = response.results
        if result.error_code:
            return Refused(result.error_code, result.error_message)
        return list(result.configs)

    async def _altered(
        self,
        resource: KafkaMessage,
        changes: Changes,
        context: CallContext,
        silent: SilentShards,
        *,
        validate_only: bool,
    ) -> Refused | None:
        if resource.resource_type == configs.GROUP:
            return await self._groups.alter(
                resource.resource_name, changes, context, silent, validate_only=validate_only
            )
        request = admin_pb2.AlterConfigsRequest(
            resource=configs.our_resource(resource),
            configs=[admin_pb2.AlterConfig(name=name, value=changes[name]) for name in changes],
            validate_only=validate_only,
        )
        try:
            response = await self._handlers.call(methods.ALTER_CONFIGS, request, context)
        except CallFailedError as error:
            return _failed(error)
        if response.error_code:
            return Refused(response.error_code, response.error_message)
        return None


def _failed(error: CallFailedError) -> Refused:
    return Refused(code_of(error, ErrorCode.UNKNOWN_SERVER_ERROR), error.message)
