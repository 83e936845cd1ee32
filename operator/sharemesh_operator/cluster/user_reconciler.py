"""ShareUsers: the access rules and quotas of a principal follow the object."""

from collections.abc import Iterable, Sequence

from sharemesh.client.acls import AclBinding, AclBindingFilter
from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.errors import SecurityDisabledError, SharemeshError
from sharemesh.domain.quota.names import EntityType, QuotaEntity
from sharemesh_operator.cluster.reconciler import ClusterRef, NamedTenantReconciler, Outcome
from sharemesh_operator.resources.cluster_spec import is_paused
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.users import (
    UserChange,
    UserFound,
    UserRule,
    made_with,
    principal_taken,
    user_change,
    user_condition,
    user_made,
    user_principal,
    user_rules,
    user_status,
)


class UserReconciler(NamedTenantReconciler):
    """Makes and removes access rules and quotas; what others made stays (IDN-11)."""

    kind = "ShareUser"
    noun = "user"
    content = "access rules and quotas"
    name_of = staticmethod(user_principal)
    taken = staticmethod(principal_taken)

    async def bring(self, home: ClusterRef, body: KubeObject) -> Outcome:
        """Make what is missing and remove what the object does not say any more."""
        admin = await home.mesh.admin()
        found = await _found(admin, body)
        change = user_change(body, found)
        refused: list[str] = []
        if change != UserChange() and not is_paused(body) and not home.spec.hands_off:
            await self._note(body, change)
            refused = await _apply(admin, body, change)
            found = await _found(admin, body)
            await self._tell(body, change, refused)
        if found.unread:
            refused = [found.unread, *refused]
        return Outcome([user_condition(body, found, refused)], user_status(body, found))

    async def delete(self, admin: AsyncAdminClient, body: KubeObject) -> None:
        """Remove what the operator made for the object.

        Raises:
            SharemeshError: The cluster did not answer, or refused some of it; the rest is removed.
        """
        latest = await self._kube.get(self.kind, body["metadata"]["name"]) or body
        found = await _found(admin, latest)
        refused = await _apply(admin, latest, user_change(latest, found, gone=True))
        if found.unread and user_made(latest).rules:
            refused.append(found.unread)
        if refused:
            await self._strike_out(latest, await _found(admin, latest))
            raise SharemeshError("; ".join(refused))

    def known(self, body: KubeObject) -> KubeObject:
        """Return the principal."""
        return {"principal": user_principal(body)}

    async def _note(self, body: KubeObject, change: UserChange) -> None:
        """Write down what will be made before it is: after a crash it is known as ours."""
        made = made_with(body, change)
        status = body.get("status") or {}
        if all(status.get(name) == value for name, value in made.items()):
            return
        await self._kube.patch(
            self.kind, body["metadata"]["name"], {"status": made}, subresource="status"
        )
        body["status"] = {**status, **made}

    async def _strike_out(self, body: KubeObject, found: UserFound) -> None:
        """Note which quotas are left: what a ShareCluster sets from now on is not the object's."""
        left = sorted(user_made(body).quotas & found.quotas.keys())
        await self._kube.patch(
            self.kind,
            body["metadata"]["name"],
            {"status": {"madeQuotas": left}},
            subresource="status",
        )

    async def _tell(self, body: KubeObject, change: UserChange, refused: Sequence[str]) -> None:
        if refused:
            return  # the condition says it
        await self._events.tell(
            body,
            "UserConfigured",
            f"{user_principal(body)}: {len(change.create)} access rules made, "
            f"{len(change.delete)} removed, {len(change.quotas)} quotas changed",
        )


async def _found(admin: AsyncAdminClient, body: KubeObject) -> UserFound:
    """Return what the mesh has for the principal of an object.

    Raises:
        SharemeshError: The cluster did not answer, or refused.
    """
    rules: list[AclBinding] = []
    unread = ""
    if user_rules(body) or user_made(body).rules:
        try:
            rules = await admin.describe_acls(AclBindingFilter(principal=user_principal(body)))
        except SecurityDisabledError as error:  # a cluster without rules may have quotas
            unread = str(error)
    entity = _entity(body)
    quotas = (await admin.describe_client_quotas(entity)).get(entity, {})
    return UserFound(tuple(_rule(each) for each in rules), quotas, unread)


async def _apply(admin: AsyncAdminClient, body: KubeObject, change: UserChange) -> list[str]:
    """Make and remove, quotas first; return the words about what was refused for good.

    Raises:
        SharemeshError: Something failed that may pass.
    """
    refused: list[str] = []
    if change.quotas:
        refused += _refused(
            (await admin.alter_client_quotas({_entity(body): change.quotas})).values()
        )
    refused += _refused(
        (await admin.create_acls([AclBinding(*each) for each in change.create])).values()
    )
    if change.delete:
        await admin.delete_acls([AclBindingFilter(*each) for each in change.delete])
    return refused


def _refused(problems: Iterable[SharemeshError | None]) -> list[str]:
    found = [each for each in problems if each is not None]
    for each in found:
        if getattr(each, "retriable", False):
            raise each
    return [str(each) for each in found]


def _rule(binding: AclBinding) -> UserRule:
    return UserRule(
        binding.principal,
        binding.operation,
        binding.resource_type,
        binding.name,
        binding.prefixed,
        binding.permission,
    )


def _entity(body: KubeObject) -> QuotaEntity:
    return QuotaEntity(EntityType.USER, user_principal(body))
