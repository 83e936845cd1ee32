"""DescribeGroupConfigs and AlterGroupConfigs (spec CFG-20, CFG-41; ACL-11)."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping

from sharemesh.authorization.refusals import hear_bound
from sharemesh.cluster.store.configs import load_group_configs, store_group_configs
from sharemesh.domain.errors import BoundReachedError, ErrorCode, RefusedError
from sharemesh.domain.group_config.cluster_definitions import MAX_GROUPS
from sharemesh.domain.group_config.evaluate import (
    check_group_configs,
    described_group_configs,
    out_of_bounds,
)
from sharemesh.domain.ids import GroupId, check_group_is_named
from sharemesh.domain.printable import check_printable
from sharemesh.group_coordinator.coordinator_context import CoordinatorContext
from sharemesh.group_coordinator.served_groups import ServedGroups
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.ports.network import CallContext
from sharemesh.v1 import group_coordinator_pb2 as pb

_log = logging.getLogger("sharemesh.group_coordinator")


ATTEMPTS = 5
"""Of a read and guarded write; each loss means that another change got through."""
VIEW_TIMEOUT_MS = 2_000
"""How long an answer waits until this node's own view shows the change."""


class GroupConfigAdmin:
    """Handlers for the settings of groups; any group id has settings, existing or not."""

    def __init__(
        self,
        coordinator: CoordinatorContext,
        groups_of: Callable[[GroupId], ServedGroups],
        coordination: Coordination,
    ) -> None:
        """``groups_of`` raises what the client must hear if another node coordinates a group."""
        self._coordinator = coordinator
        self._groups_of = groups_of
        self._coordination = coordination
        self._beginning: Counter[GroupId] = Counter()  # first settings that are being stored

    async def describe(
        self, request: pb.DescribeGroupConfigsRequest, context: CallContext
    ) -> pb.DescribeGroupConfigsResponse:
        """Return each setting in force, with where it is from."""
        self._coordinator.check_groups(len(request.group_ids))
        response = pb.DescribeGroupConfigsResponse()
        view = self._coordinator.view
        for group_id in request.group_ids:
            result = response.results.add(group_id=group_id)
            try:
                self._coordinator.access.group(
                    context.principal, Operation.DESCRIBE_CONFIGS, GroupId(group_id)
                )
                self._groups_of(GroupId(group_id))
            except RefusedError as error:
                result.error_code, result.error_message = error.error, error.message
                continue
            entries = view.group_config_entries(GroupId(group_id))
            for warning in out_of_bounds(entries, view.cluster_configs()):
                _log.warning("group %r: %s", group_id, warning)
            for each in described_group_configs(entries, view.cluster_configs()):
                result.configs.add(
                    name=each.name,
                    value=each.value,
                    source=each.source,
                    documentation=each.documentation,
                )
        return response

    async def alter(
        self, request: pb.AlterGroupConfigsRequest, context: CallContext
    ) -> pb.AlterGroupConfigsResponse:
        """Change some settings of a group, all or none."""
        self._coordinator.check_groups(len(request.configs))
        group_id = GroupId(request.group_id)
        try:
            self._coordinator.access.group(context.principal, Operation.ALTER_CONFIGS, group_id)
            check_group_is_named(group_id)
            self._groups_of(group_id)
            changes = {
                each.name: each.value if each.HasField("value") else None
                for each in request.configs
            }
            await self._alter(group_id, changes, validate_only=request.validate_only)
        except RefusedError as error:
            hear_bound(error, context.principal)
            return pb.AlterGroupConfigsResponse(error_code=error.error, error_message=error.message)
        except CoordinationError as error:
            return pb.AlterGroupConfigsResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                error_message=f"settings not stored: {error}",
            )
        return pb.AlterGroupConfigsResponse()

    async def _alter(
        self, group_id: GroupId, changes: Mapping[str, str | None], *, validate_only: bool
    ) -> None:
        view = self._coordinator.view
        for _ in range(ATTEMPTS):
            stored = await load_group_configs(self._coordination, view, group_id)
            entries = check_group_configs(changes, stored.entries, view.cluster_configs())
            if entries == stored.entries:
                return  # also where there is no room: nothing is made
            if not stored.entries:
                self._check_new(group_id)
            if validate_only:
                return
            self._beginning[group_id] += 1
            try:
                if await self._stored(group_id, entries, stored.mod_revision):
                    return
            finally:
                self._beginning[group_id] -= 1
                if not self._beginning[group_id]:
                    del self._beginning[group_id]
        raise RefusedError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"settings of group {group_id!r} were changed {ATTEMPTS} times meanwhile; try again",
        )

    def _check_new(self, group_id: GroupId) -> None:
        """Refuse the first settings of a group that is not there, if it may not have any.

        Raises:
            RefusedError: INVALID_GROUP_ID (BND-24), INVALID_REQUEST (BND-23).
        """
        if not self._is_absent(group_id):
            return
        check_printable("group id", group_id, ErrorCode.INVALID_GROUP_ID)
        most = self._coordinator.settings.max_groups
        configured = {*self._coordinator.view.configured_groups(), *self._beginning}
        absent = sum(map(self._is_absent, configured - {group_id}))
        if absent >= most:
            raise BoundReachedError(
                ErrorCode.INVALID_REQUEST,
                f"{absent} groups of this coordinator have settings and do not exist, the most is "
                f"{most} ({MAX_GROUPS}); remove settings that are not needed, or raise it",
            )

    def _is_absent(self, group_id: GroupId) -> bool:
        """Return whether it is a group of this coordinator's, and does not exist."""
        try:
            return self._groups_of(group_id).decisions.group(group_id) is None
        except RefusedError:
            return False

    async def _stored(
        self, group_id: GroupId, entries: Mapping[str, str], mod_revision: int
    ) -> bool:
        """Store unless others did first; return once this node's view shows it."""
        view = self._coordinator.view
        done = await store_group_configs(
            self._coordination, view, group_id, entries, expected_mod_revision=mod_revision
        )
        if done:
            await view.wait_for(
                lambda: view.group_config_entries(group_id) == entries, timeout_ms=VIEW_TIMEOUT_MS
            )
        return done
