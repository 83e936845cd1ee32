"""What the chart's Role allows, to be held against what the operator asked for."""

import re
from pathlib import Path

import yaml

PERMISSIONS = Path(__file__).parents[2] / "charts/sharemesh/files/permissions.yaml"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_RESOURCE = re.compile(
    r"/api(?:s/(?P<group>[^/]+))?/v[^/]+/namespaces/[^/]+/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/?]+)(?:/(?P<sub>[a-z]+))?)?(?:\?(?P<query>.*))?$"
)


def allowed():
    """Return (API group, resource, verb) that the Role grants."""
    rules = yaml.safe_load(PERMISSIONS.read_text())["allowed"]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(requests):
    """Return (API group, resource, verb) of requests; what is of no namespace is left out."""
    found = set()
    for method, path in requests:
        match = _RESOURCE.match(path)
        if match is None:
            assert method == "GET", path
            continue
        resource = match["plural"] + (f"/{match['sub']}" if match["sub"] else "")
        if method == "GET":
            watching = "watch=true" in (match["query"] or "")
            verb = "get" if match["name"] else "watch" if watching else "list"
        else:
            verb = VERBS[method]
        found.add((match["group"] or "", resource, verb))
    return found
