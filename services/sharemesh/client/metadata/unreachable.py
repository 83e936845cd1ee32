"""Why no process of a cluster answered, in one line that names each address once."""

from collections.abc import Sequence

from sharemesh.ports.network import CallFailedError, Failure

Attempt = tuple[str, CallFailedError]


def nobody_answered(attempts: Sequence[Attempt], addresses: Sequence[str], within: str = "") -> str:
    """Return the words for one round of attempts, each at an address; none: all is overdue."""
    by_reason: dict[str, list[str]] = {}
    for address, error in attempts:
        by_reason.setdefault(_reason(address, error), []).append(address)
    where = "; ".join(f"{', '.join(each)}: {why}" for why, each in by_reason.items())
    return (
        f"no process of the cluster answered{within} at {where or ', '.join(addresses)}; is the "
        "cluster running, and is the port right?"
    )


def _reason(address: str, error: CallFailedError) -> str:
    if error.unreachable:
        return error.unreachable
    if error.failure is Failure.DEADLINE_EXCEEDED:
        return "no answer in time"
    return error.message.replace(f" to {address}", "")
