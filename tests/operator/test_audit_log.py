"""How the end-to-end suite reads the API server's audit log: what was denied, and what counts."""

from tests.e2e.audit import Account, denied_with_rights, requests_of

OPERATOR = Account("queues", "sharemesh-operator")


def at(seconds):
    return f"2026-01-01T00:00:{seconds:09.6f}Z"


def event(user, verb, uri, received, *, took=0.01, code=200, allowed=True, reason="", **of):
    return {
        "verb": verb,
        "requestURI": uri,
        "user": {"username": user},
        "objectRef": of,
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": at(received),
        "stageTimestamp": at(received + took),
        "annotations": {
            "authorization.k8s.io/decision": "allow" if allowed else "forbid",
            "authorization.k8s.io/reason": reason,
        },
    }


def asked(received, *, allowed=True, took=0.01):
    reason = 'RBAC: allowed by RoleBinding "sharemesh-operator/queues" of Role "sharemesh-operator"'
    return event(
        OPERATOR.user, "list", "/pods", received, took=took, allowed=allowed,
        code=200 if allowed else 403, reason=reason if allowed else "",
    )  # fmt: skip


def rights(verb, received, *resources, code=200, name="sharemesh-operator"):
    return [
        event("helm", verb, f"/{resource}/{name}", received, code=code,
              resource=resource, namespace="queues", name=name)
        for resource in resources
    ]  # fmt: skip


MADE = [*rights("create", 1, "roles", code=201), *rights("create", 1.1, "rolebindings", code=201)]
GONE = [*rights("delete", 20, "rolebindings"), *rights("delete", 20.1, "roles")]


def test_what_is_denied_while_the_rights_are_there_counts():
    events = [*MADE, asked(2), asked(5, allowed=False), asked(6), *GONE]
    assert denied_with_rights(OPERATOR, events) == [f"list /pods at {at(5)}"]
    assert len(requests_of(OPERATOR, events)) == 3


def test_what_an_operator_asks_after_its_role_was_deleted_does_not_count():
    late = [asked(20.02), asked(21, allowed=False), asked(19.99, took=1, allowed=False)]
    assert denied_with_rights(OPERATOR, [*MADE, asked(2), *GONE, *late]) == []


def test_what_is_denied_before_the_authorizer_knows_a_new_role_does_not_count():
    again = [*rights("patch", 30, "roles", code=201), *rights("patch", 30.1, "rolebindings")]
    early = [asked(20.5), asked(30.05, allowed=False), asked(30.2, allowed=False)]
    known = [asked(31), asked(32, allowed=False)]
    events = [*MADE, asked(2), *GONE, *again, *early, *known]
    assert denied_with_rights(OPERATOR, events) == [f"list /pods at {at(32)}"]


def test_rights_of_others_and_writes_that_failed_change_nothing():
    others = rights("delete", 3, "roles", name="another")
    failed = rights("create", 21, "roles", "rolebindings", code=409)
    events = [*MADE, asked(2), *others, asked(4, allowed=False), *GONE, *failed]
    assert denied_with_rights(OPERATOR, [*events, asked(22), asked(23, allowed=False)]) == [
        f"list /pods at {at(4)}"
    ]
