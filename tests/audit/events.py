"""Events as the tests of the audit log make them, and lines read back."""

import json

from sharemesh.audit.events import AuditDecision, AuditEvent, Kind, resource
from sharemesh.audit.trail import AuditTrail


class Wall:
    """Wall time that stands until a test moves it."""

    def __init__(self):
        self.now_ms = 1_800_000_000_000

    def __call__(self):
        return self.now_ms


def refusal(name="secret", principal="User:eve", peer="ipv4:10.0.0.7:5001", **fields):
    return AuditEvent(
        Kind.REFUSAL,
        principal,
        peer,
        fields.pop("rpc", "Admin/DeleteTopics"),
        AuditDecision.REFUSED,
        operation="delete",
        resources=(resource("topic", name),),
        error=fields.pop("error", "TOPIC_AUTHORIZATION_FAILED"),
        error_code=29,
        **fields,
    )


def change(name="orders", decision=AuditDecision.DONE, **fields):
    return AuditEvent(
        Kind.CHANGE,
        "User:root",
        "ipv4:10.0.0.1:7000",
        "Admin/DeleteTopics",
        decision,
        resources=(resource("topic", name),),
        **fields,
    )


def trail(wall=None, now=None, **options):
    """Return a trail; the monotonic clock goes with the wall clock unless it is given."""
    wall = wall or Wall()
    return AuditTrail("node-1", wall, now or wall, **options)


def lines(trail, *, ending=False):
    """Take all lines out of a trail, as their fields."""
    found = []
    while taken := trail.take(1 << 20, ending=ending):
        found += [json.loads(each.text) for each in taken]
    return found
