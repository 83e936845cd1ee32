"""Settings and lists of resources: requests that several calls answer, or none."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

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

_SETTINGS_OF_ONE = 50
"""About what a resource has."""

_TOO_MANY = Refused(
    ErrorCode.INVALID_REQUEST, f"more than {RESOURCES_MAX} resources: send fewer at once"
)
_TWICE = Refused(ErrorCode.INVALID_REQUEST, "the resource is named twice: name it once")


class UnwrittenAnswer(NamedTuple):
    """An answer that is still to be put together, which looks at nothing that changes."""

    parts: int
    content: Callable[[], Content]


class ConfigAnswers:
    """Answers about settings, one resource after the other."""

    def __init__(
        self, handlers: OfferedHandlers, view: ClusterView, groups: GroupConfigCalls
    ) -> None:
        self._handlers = handlers
        self._view = view
        self._groups = groups

    async def describe(self, asked: KafkaMessage, context: CallContext) -> UnwrittenAnswer:
        """Return the answer to DescribeConfigs."""
        answered = asked.resources[:RESOURCES_MAX]
        silent: SilentShards = {}
        found: list[list[ConfigEntry] | Refused] = [
            self._refused(each) or await self._described(each, context, silent) for each in answered
        ]

        def content() -> Content:
            every = [*found, *(_TOO_MANY for _ in asked.resources[RESOURCES_MAX:])]
            return configs.describe_answer(
                [
                    configs.described(asked, resource, told)
                    for resource, told in zip(asked.resources, every, strict=True)
                ]
            )

        parts = len(asked.resources) + _SETTINGS_OF_ONE * len(answered)
        return UnwrittenAnswer(parts, content)

    async def alter(self, asked: KafkaMessage, context: CallContext) -> UnwrittenAnswer:
        """Return the answer to IncrementalAlterConfigs."""
        named = Counter(map(_name_of, asked.resources))
        results: list[Refused | None] = []
        silent: SilentShards = {}
        for resource in asked.resources[:RESOURCES_MAX]:
            twice = _TWICE if named[_name_of(resource)] > 1 else None
            changes = configs.changes_of(resource)
            refused = twice or self._refused(resource, alters=True)
            if isinstance(changes, Refused):
                result: Refused | None = refused or changes
            else:
                result = refused or await self._altered(
                    resource, changes, context, silent, validate_only=asked.validate_only
                )
            results.append(result)

        def content() -> Content:
            beyond = (
                _TWICE if named[_name_of(each)] > 1 else _TOO_MANY
                for each in asked.resources[RESOURCES_MAX:]
            )
            every = zip(asked.resources, [*results, *beyond], strict=True)
            return configs.alter_answer([configs.altered(*each) for each in every])

        return UnwrittenAnswer(len(asked.resources), content)

    async def list_resources(
        self, version: int, asked: KafkaMessage, context: CallContext
    ) -> UnwrittenAnswer:
        """Return the answer to ListConfigResources: what has settings, or may have some.

        No method lists them: whoever may see settings of the cluster may see these.
        """
        seen = await self._entries(configs.OF_CLUSTER, context)
        if isinstance(seen, Refused):
            code = seen.code
            return UnwrittenAnswer(0, lambda: configs.list_answer(code, ()))
        found = list(self._resources(configs.wanted_types(version, asked)))
        return UnwrittenAnswer(len(found), lambda: configs.list_answer(ErrorCode.NONE, found))

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


def _name_of(resource: KafkaMessage) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name
