"""What the API server's audit log says that a service account was denied while it had rights.

An operator may outlive its Role for a moment when its release is uninstalled, and a new Role is
known to the API server's authorizer only a moment after it was made. Only what it was denied in
between counts: received after the first request that its RoleBinding allowed, and answered before
the deletion of Role or RoleBinding was received.
"""

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Event = Mapping[str, Any]

RIGHTS = ("roles", "rolebindings")
WRITES = ("create", "update", "patch")
DELETIONS = ("delete", "deletecollection")
DECISION = "authorization.k8s.io/decision"
REASON = "authorization.k8s.io/reason"
FAILED = 400


@dataclass(frozen=True, slots=True)
class Account:
    """A service account, and the Role and RoleBinding of its name."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        """Return the name of the account as a user."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


def requests_of(account: Account, events: Iterable[Event]) -> list[Event]:
    """Return what the account asked, in the order in which it was received."""
    mine = [event for event in events if event["user"]["username"] == account.user]
    return sorted(mine, key=_received)


def denied_with_rights(account: Account, events: Iterable[Event]) -> list[str]:
    """Return what the account was denied while it had its rights."""
    events = list(events)
    asked = requests_of(account, events)
    periods = list(_periods(account, events, asked))
    return [
        f"{event['verb']} {event['requestURI']} at {event['requestReceivedTimestamp']}"
        for event in asked
        if event["annotations"][DECISION] == "forbid"
        and any(begin <= _received(event) and _answered(event) < end for begin, end in periods)
    ]


def _periods(
    account: Account, events: list[Event], asked: list[Event]
) -> Iterator[tuple[datetime.datetime, datetime.datetime]]:
    """Return from when to when the account had its rights for certain."""
    known = [(_received(event), "", True) for event in asked if _allowed(account, event)]
    changed = [change for event in events for change in _change(account, event)]
    missing: set[str] = set()
    begin = None
    for when, resource, is_there in sorted(known + changed):
        if not is_there:
            missing.add(resource)
            if begin is not None:
                yield begin, when
            begin = None
        elif resource:
            missing.discard(resource)
        elif begin is None and not missing:
            begin = when
    if begin is not None:
        yield begin, datetime.datetime.max.replace(tzinfo=datetime.UTC)


def _change(account: Account, event: Event) -> Iterator[tuple[datetime.datetime, str, bool]]:
    """Return when a Role or RoleBinding of the account came or went, and which of the two."""
    of = event.get("objectRef") or {}
    resource = of.get("resource", "")
    if resource not in RIGHTS or of.get("namespace") != account.namespace:
        return
    if of.get("name", account.name) != account.name:
        return
    if event["verb"] in DELETIONS:
        yield _received(event), resource, False
    elif event["verb"] in WRITES and event["responseStatus"]["code"] < FAILED:
        yield _answered(event), resource, True


def _allowed(account: Account, event: Event) -> bool:
    """Return whether a request was allowed by the account's own RoleBinding."""
    notes = event["annotations"]
    return notes[DECISION] == "allow" and f'RoleBinding "{account.name}/' in notes[REASON]


def _received(event: Event) -> datetime.datetime:
    return datetime.datetime.fromisoformat(event["requestReceivedTimestamp"])


def _answered(event: Event) -> datetime.datetime:
    return datetime.datetime.fromisoformat(event["stageTimestamp"])
