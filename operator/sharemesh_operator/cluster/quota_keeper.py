"""Keeps the quotas that a ShareCluster names (spec QUO-16)."""

from collections.abc import Mapping
from dataclasses import dataclass

from sharemesh.client.errors import InvalidGroupIdError, InvalidRequestError, SharemeshError
from sharemesh.client.quotas import QuotaEntity, words_of
from sharemesh_operator.cluster.cluster_connection import ClusterConnection
from sharemesh_operator.cluster.connection_error import ClusterConnectionError
from sharemesh_operator.cluster.kube import Kube
from sharemesh_operator.cluster.status_and_events import Events
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.names import KubeObject
from sharemesh_operator.resources.quotas import (
    FIELD,
    MadeQuotas,
    QuotaChange,
    made_quotas,
    made_status,
    of_users,
    quota_change,
    unclaimed,
    wanted_quotas,
    with_wanted,
    without,
)

KIND = "QuotasInForce"
SHOWN_MAX = 5  # refusals in a message


@dataclass(frozen=True, slots=True)
class QuotaOutcome:
    """What a round says of the quotas of a cluster; no condition where there are none."""

    conditions: list[Condition]
    status: KubeObject

    @property
    def pending(self) -> bool:
        """Whether to try again soon."""
        return any(each.reason == "QuotasPending" for each in self.conditions)


class QuotaKeeper:
    """Sets what the object names, and takes back what it made and the object names no more."""

    def __init__(self, kube: Kube, events: Events) -> None:
        self._kube = kube
        self._events = events

    async def keep(
        self, body: KubeObject, mesh: ClusterConnection | None, *, hands_off: bool
    ) -> QuotaOutcome:
        """Bring the stored quotas to what the object says.

        Raises:
            KubeError: The status could not be written; nothing was changed.
        """
        wanted, made = wanted_quotas(body), made_quotas(body)
        if not wanted and not made:
            return QuotaOutcome([], {FIELD: None})
        claimed = of_users(body["metadata"]["name"], await self._kube.list("ShareUser"))
        wanted, made = unclaimed(wanted, claimed), without(made, claimed)
        if mesh is None:
            waits = Condition.unknown(KIND, "QuotasPending", "etcd cannot be asked")
            return QuotaOutcome([waits], {FIELD: made_status(made)})
        quotas = mesh.view.tables.quotas
        change = quota_change(wanted, made, quotas.values_of)
        said = Condition.true(KIND, "QuotasSet", f"{_count(wanted)} are stored")
        if change and hands_off:
            said = Condition.false(KIND, "QuotasPending", "the operator changes nothing")
        elif change:
            made = await self._note(body, with_wanted(made, wanted))
            made, said = await self._make(body, mesh, change, made, said)
        return QuotaOutcome([said], {FIELD: made_status(made)})

    async def _note(self, body: KubeObject, made: MadeQuotas) -> MadeQuotas:
        """Write down what will be made before it is: after a crash it is known as made."""
        if made != made_quotas(body):
            patch = {"status": {FIELD: made_status(made)}}
            name = body["metadata"]["name"]
            await self._kube.patch(body["kind"], name, patch, subresource="status")
            body["status"] = {**(body.get("status") or {}), **patch["status"]}
        return made

    async def _make(
        self,
        body: KubeObject,
        mesh: ClusterConnection,
        change: QuotaChange,
        made: MadeQuotas,
        said: Condition,
    ) -> tuple[MadeQuotas, Condition]:
        try:
            admin = await mesh.admin()
            problems = await admin.alter_client_quotas(change)
        except (ClusterConnectionError, SharemeshError) as error:
            return made, Condition.false(KIND, "QuotasPending", f"not changed yet: {error}")
        done = {
            entity: change[entity]
            for entity, problem in problems.items()
            if problem is None or _is_absent(change[entity], problem)
        }
        refused = {
            entity: problem
            for entity, problem in problems.items()
            if problem is not None and entity not in done
        }
        made = without(
            made, {entity: [n for n, v in of.items() if v is None] for entity, of in done.items()}
        )
        if done:
            names = "; ".join(f"{words_of(each)}: {', '.join(of)}" for each, of in done.items())
            await self._events.tell(body, "QuotasChanged", names)
        if not refused:
            return made, said
        words = "; ".join(
            f"{words_of(each)}: {problem}" for each, problem in list(refused.items())[:SHOWN_MAX]
        )
        message = f"{len(refused)} of {len(change)} changes refused: {words}"
        if all(getattr(each, "retriable", False) for each in refused.values()):
            return made, Condition.false(KIND, "QuotasPending", message)
        await self._events.tell(body, "QuotasRefused", message, warning=True)
        return made, Condition.false(KIND, "QuotasRefused", message)


def _is_absent(changes: Mapping[str, float | None], problem: SharemeshError) -> bool:
    """Return whether what is to be removed cannot be there: nobody can have such a name."""
    removes = all(value is None for value in changes.values())
    return removes and isinstance(problem, InvalidRequestError | InvalidGroupIdError)


def _count(wanted: Mapping[QuotaEntity, Mapping[str, float]]) -> str:
    return f"{sum(map(len, wanted.values()))} quotas of {len(wanted)} entities"
