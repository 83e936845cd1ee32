"""A real process with TLS, access rules and a listener: clients log in, or show certificates."""

import contextlib
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import trustme

from sharemesh.client.acls import AclBinding
from sharemesh.client.connect import connect
from tests.etcd_server import die_with_parent
from tests.kafka_listener.logins import ALGORITHMS, PASSWORD
from tests.rpc.certificates import issue, replace
from tests.tokens.issuer import AUDIENCE, ISSUER, key_set, token

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ADMIN, ALICE = "admin", "alice"


@dataclass(frozen=True)
class Secured:
    """Where it is, and its files: ``ca.crt``, and ``NAME.crt`` and ``NAME.key`` of names."""

    address: str
    kafka: str
    directory: Path
    by_login: bool

    @property
    def authority(self) -> str:
        return str(self.directory / "ca.crt")

    def file(self, name: str) -> str:
        return str(self.directory / name)

    def admin(self):
        """Return the administrator's client, over gRPC."""
        proof = {"sasl_token_location": self.file(f"{ADMIN}.token")}
        if not self.by_login:
            proof = {
                "ssl_certificate_location": self.file(f"{ADMIN}.crt"),
                "ssl_key_location": self.file(f"{ADMIN}.key"),
            }
        return connect(
            self.address, security_protocol="ssl", ssl_ca_location=self.authority, **proof
        ).admin()

    def prepare(self, topic: str) -> None:
        """Create a topic that alice may write and read, in a group of its name."""
        user = f"User:{ALICE}"
        rules = [
            AclBinding(user, "write", "topic", topic),
            AclBinding(user, "read", "topic", topic),
            AclBinding(user, "read", "group", topic),
        ]
        with self.admin() as admin:
            admin.create_topic(topic, 1)
            admin.alter_group_configs(topic, {"share.auto.offset.reset": "earliest"})
            assert set(admin.create_acls(rules).values()) == {None}

    def token_of(self, name: str, **claims) -> str:
        now = int(time.time())
        return token(sub=name, nbf=now - 1, exp=now + 600, **claims)


@contextlib.contextmanager
def secured(directory: Path, *arguments: str, by_login: bool):
    """Yield a cluster of one process; alice has a password, or a certificate."""
    authority = trustme.CA()
    replace(directory / "ca.crt", authority.cert_pem.bytes())
    for name in ("server", ADMIN, ALICE, "eve"):
        issue(authority, directory, name, name)
    replace(directory / "keys.json", key_set("rs1"))
    options = {
        "listen-port": "0",
        "kafka-listener-port": "0",
        "listen-host": "127.0.0.1",
        "advertised-host": "localhost",
        "data-directory": directory / "data",
        "authorizer": "acl",
        "super-users": f"User:{ADMIN}",
        "tls-certificate": directory / "server.crt",
        "tls-key": directory / "server.key",
        "tls-authority": directory / "ca.crt",
    }
    if by_login:
        options |= {
            "tls-client-certificates": "none",
            "token-issuer": ISSUER,
            "token-audience": AUDIENCE,
            "token-keys": directory / "keys.json",
            "kafka-listener-sasl-mechanisms": ",".join(MECHANISMS),
        }
    command = [sys.executable, "-m", "sharemesh.serve", "--role=all"]
    command += [f"--{name}={value}" for name, value in options.items()]
    log = (directory / "log").open("w")
    with subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=log,
        preexec_fn=die_with_parent,  # noqa: PLW1509
    ) as process:
        try:
            line = process.stdout.readline()
            assert line, (directory / "log").read_text()
            told = json.loads(line)
            cluster = Secured(
                f"localhost:{told['port']}", told["kafka"], directory, by_login=by_login
            )
            replace(directory / f"{ADMIN}.token", cluster.token_of(ADMIN).encode())
            if by_login:
                with cluster.admin() as admin:
                    given = {ALICE: dict.fromkeys(ALGORITHMS, PASSWORD)}
                    assert admin.alter_user_scram_credentials(given) == {ALICE: None}
            yield cluster
        finally:
            process.terminate()
            process.wait(30)
            log.close()
