"""Asks the API server what this pod may do; exit 1 if it is too much or too little."""

import json
import os
import ssl
import sys
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NEEDED = [
    ("sharemesh.io", "shareclusters", "", "watch"),
    ("sharemesh.io", "shareclusters", "status", "patch"),
    ("sharemesh.io", "sharegroupoperations", "", "delete"),
    ("apps", "statefulsets", "", "patch"),
    ("", "pods", "", "delete"),
    ("", "services", "", "create"),
    ("", "configmaps", "", "create"),
    ("policy", "poddisruptionbudgets", "", "create"),
    ("", "events", "", "create"),
]
FORBIDDEN = [
    ("", "secrets", "", "get"),
    ("", "secrets", "", "list"),
    ("", "pods", "exec", "create"),
    ("", "pods", "eviction", "create"),
    ("", "pods", "", "create"),
    ("", "serviceaccounts", "token", "create"),
    ("rbac.authorization.k8s.io", "roles", "", "create"),
    ("apps", "deployments", "", "patch"),
]


def may(namespace: str, group: str, resource: str, subresource: str, verb: str) -> bool:
    """Return the API server's answer."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    attributes = {"namespace": namespace, "group": group, "resource": resource, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes | {"subresource": subresource}},
    }
    request = urllib.request.Request(
        f"https://{host}:{port}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        json.dumps(review).encode(),
        {
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",
            "Content-Type": "application/json",
        },
    )
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=trust) as answer:  # noqa: S310 - https
        return bool(json.load(answer)["status"]["allowed"])


def main() -> int:
    """Ask all; print what is wrong."""
    namespace = sys.argv[1]
    wrong = [f"may not {rule}" for rule in NEEDED if not may(namespace, *rule)]
    wrong += [f"may {rule}" for rule in FORBIDDEN if may(namespace, *rule)]
    wrong += [f"may {rule} in kube-system" for rule in NEEDED if may("kube-system", *rule)]
    for line in wrong:
        print(line)
    asked = 2 * len(NEEDED) + len(FORBIDDEN)
    print(f"{asked} permissions asked, {len(wrong)} are not as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
