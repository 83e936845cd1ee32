"""Asks the API server what this pod may do; exit 1 if it is too much or too little."""

import json
import os
import ssl
import sys
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LISTS = Path(__file__).with_name("permissions.json")


def questions(half: str) -> list[tuple[str, str, str, str]]:
    """Return (API group, resource, subresource, verb) of one half of the list."""
    return [
        (group, *resource.partition("/")[::2], verb)
        for rule in json.loads(LISTS.read_text())[half]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
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
    needed, forbidden = questions("allowed"), questions("forbidden")
    wrong = [f"may not {rule}" for rule in needed if not may(namespace, *rule)]
    wrong += [f"may {rule}" for rule in forbidden if may(namespace, *rule)]
    wrong += [f"may {rule} in kube-system" for rule in needed if may("kube-system", *rule)]
    for line in wrong:
        print(line)
    asked = 2 * len(needed) + len(forbidden)
    print(f"{asked} permissions asked, {len(wrong)} are not as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
