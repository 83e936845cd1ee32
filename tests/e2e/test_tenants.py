"""Tenants: pods known by tokens of their ServiceAccount, with the rights of a ShareUser."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e import environment, objects
from tests.e2e.environment import Environment
from tests.e2e.kube import Document, until

AUDIENCE = environment.TOKEN_AUDIENCE
MESH = "tenants"
WEB = "web"
AUDIT = '{"log": "audit"'
OPEN_CONSUMER = "/tmp/consumer.log"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod of one ServiceAccount with two tokens: for the mesh, and for somebody else."""

    mesh: Environment

    @property
    def principal(self) -> str:
        """Whom the mesh takes it for."""
        return f"User:system:serviceaccount:{self.mesh.namespace}:{WEB}"

    def start(self) -> None:
        """Make the ServiceAccount and the pod."""
        tokens = [
            {"serviceAccountToken": {"path": path, "audience": audience}}
            for path, audience in (("mesh", AUDIENCE), ("other", "somebody-else"))
        ]
        authority = {"items": [{"key": "ca.crt", "path": "ca.crt"}]}
        sources = [*tokens, {"secret": {"name": environment.TLS_SECRET, **authority}}]
        self.mesh.kube.apply(
            account(WEB),
            objects.client_pod(
                WEB,
                self.mesh.images.sharemesh,
                ["sleep", "3600"],
                serviceAccountName=WEB,
                mounts=[{"name": "identity", "mountPath": "/identity", "readOnly": True}],
                volumes=[{"name": "identity", "projected": {"sources": sources}}],
            ),
        )

    def shell(self, script: str) -> str:
        """Run a script with the settings of the command line."""
        settings = (
            "export SHAREMESH_SECURITY_PROTOCOL=ssl SHAREMESH_SSL_CA_LOCATION=/identity/ca.crt"
            f" SHAREMESH_BOOTSTRAP={self.mesh.bootstrap(MESH)}"
        )
        return self.mesh.kube.exec(WEB, "sh", "-c", f"{settings}; {script}")

    def says(self, *words: str, token: str = "mesh", given: str = "") -> tuple[int, str]:
        """Run the command line; return its exit code, and all that it said."""
        command = shlex.join(["sharemesh", *words, "--token-file", f"/identity/{token}"])
        said = self.shell(f"printf {shlex.quote(given)} | {command} 2>&1; echo exit $?")
        text, _, code = said.rpartition("exit ")
        return int(code), text


def account(name: str) -> Document:
    """Return a ServiceAccount without any right in Kubernetes."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name},
        "automountServiceAccountToken": False,
    }


def share_user(principal: str, *rules: tuple[str, str, str], **quotas: int) -> Document:
    """Return a ShareUser."""
    acls = [
        {"resourceType": kind, "name": name, "operations": [operation]}
        for kind, name, operation in rules
    ]
    spec = {"clusterRef": {"name": MESH}, "principal": principal, "acls": acls, "quotas": quotas}
    return objects.custom("ShareUser", WEB, spec)


def audit_lines(mesh: Environment) -> Iterator[Document]:
    """Read what the pods of the cluster wrote to the audit log on their stdout."""
    for role in environment.ROLES:
        for pod in mesh.pods(role, MESH):
            for line in mesh.kube.logs(pod["metadata"]["name"]).splitlines():
                if line.startswith(AUDIT):
                    yield json.loads(line)


@pytest.fixture
def tenant(mesh, small):
    """The pod of a tenant of a cluster with tokens and access rules, beside a topic and a group."""
    found = Tenant(mesh)
    mesh.kube.apply(account("mesh-pods"))
    found.start()
    issuer = json.loads(mesh.kube("get", "--raw", "/.well-known/openid-configuration"))["issuer"]
    operator = f"User:system:serviceaccount:{mesh.namespace}:sharemesh-operator"
    small(
        MESH,
        tls={"secretName": environment.TLS_SECRET},
        tokens={"issuer": issuer, "audience": AUDIENCE, "serviceAccountName": "mesh-pods"},
        authorization={"mode": "Acl", "superUsers": [operator]},
        audit={"destination": "Stdout"},
    )
    yield found, *mesh.topic_and_group("tenancy", cluster=MESH, partitions=1)
    mesh.kube.delete("pod", WEB)


def test_a_pod_may_do_what_the_share_user_of_its_service_account_says(mesh, tenant):
    web, topic, group = tenant
    produce = ("produce", topic, "--format", "text", "--timeout", "15000")
    consume = ("consume", topic, "--group", group)

    # A token proves who it is, and gives no right; one that is for somebody else proves nothing.
    code, said = web.says("topics", "create", "mine")
    assert code == 1
    assert f"{web.principal} is not authorized for CREATE on" in said
    code, said = web.says(*produce, given="early\\n")
    assert (code, "does not exist" in said) == (1, True), "what it may not see is not there"
    code, said = web.says(*produce, given="early\\n", token="other")
    assert code == 1
    assert f"the token is not for the audience {AUDIENCE}" in said

    # What a ShareUser says is in force, quotas too.
    rights = (("Topic", topic, "Write"), ("Topic", topic, "Read"), ("Group", group, "Read"))
    mesh.kube.apply(share_user(web.principal, *rights, streams=5))
    condition = mesh.kube.wait_for_condition("shareuser", WEB)
    assert "3 access rules and 1 quotas" in condition["message"]
    assert web.says(*produce, given="one\\ntwo\\n")[0] == 0
    code, said = web.says(*consume, "--max-records", "2")
    assert (code, said.splitlines()[:2]) == (0, ["one", "two"])

    # So is a change of it: what it does not say any more is refused, and the rest goes on.
    mesh.kube.apply(share_user(web.principal, *rights[1:], streams=5))
    mesh.kube.wait_for_condition("shareuser", WEB)
    code, said = web.says(*produce, given="three\\n")
    assert code == 1
    assert f"{web.principal} is not authorized for WRITE on" in said

    # Without it nothing is left, also for a consumer that is open.
    open_consumer = shlex.join(["sharemesh", *consume, "--token-file", "/identity/mesh"])
    web.shell(f"({open_consumer}; echo exit $?) >{OPEN_CONSUMER} 2>&1 </dev/null &")
    until("the consumer has joined", lambda: has_a_member(mesh, group))
    mesh.kube.delete("shareuser", WEB, wait=True)
    said = until(
        "the consumer that is open is refused",
        lambda: ended(web.shell(f"cat {OPEN_CONSUMER}")),
        timeout_s=30,
    )
    assert f"{web.principal} is not authorized for READ on" in said
    assert said.endswith("exit 1")

    # The audit log has each refusal, and the changes that the operator made.
    refusals = [each for each in audit_lines(mesh) if each["decision"] == "refused"]
    refused = {
        (each.get("operation"), resource["name"])
        for each in refusals
        if each["principal"] == web.principal
        for resource in each["resources"]
    }
    assert {("create", "mine"), ("read", group)} <= refused
    assert any(each["error"] == "UNAUTHENTICATED" for each in refusals)
    assert any(each["rpc"].endswith("/DeleteAcls") for each in audit_lines(mesh))


def test_audit_files_of_all_pods_are_read_in_any_of_them(mesh, small):
    small("filed", audit={"destination": "File", "fileBytes": 65_536, "files": 2})
    topic, _ = mesh.topic_and_group("filed", cluster="filed", partitions=1)
    reader = mesh.pods("share-coordinator", "filed")[0]["metadata"]["name"]

    def made() -> Document | None:
        command = ("sharemesh", "audit", "/data", "--rpc", "CreateTopics", "--json")
        events = map(json.loads, mesh.kube.exec(reader, *command).splitlines())
        return next((each for each in events if topic in str(each["resources"])), None)

    assert until("an audit file tells of the topic", made)["decision"] == "done"
    sizes = mesh.kube.exec(reader, "sh", "-c", "wc -c /data/logs/*.jsonl* | tail -n 1").split()
    assert int(sizes[0]) <= 2 * 2 * 65_536 * 4, "four processes, two kinds, two files each"


def has_a_member(mesh: Environment, group: str) -> bool | None:
    """Return whether a ShareGroup says that somebody is in the group."""
    return bool(mesh.kube.get("sharegroup", group)["status"].get("members")) or None


def ended(said: str) -> str | None:
    """Return what a program said whose last line is its exit code."""
    return said.strip() if said.splitlines()[-1:] and "exit " in said.splitlines()[-1] else None
