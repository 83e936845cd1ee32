"""How the API server is reached: the pod's service account, or a kubeconfig file."""

import base64
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kopf
import yaml

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class CredentialsError(Exception):
    """There is no way to the API server; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """An address and what proves who we are; empty paths are not used."""

    url: str
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    token_file: str = ""
    token_text: str = ""
    insecure: bool = False

    def token(self) -> str:
        """Return the bearer token as it is now: the kubelet renews the file."""
        if self.token_file:
            return Path(self.token_file).read_text(encoding="ascii").strip()
        return self.token_text

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return what TLS needs, or None for plain HTTP."""
        if not self.url.startswith("https:"):
            return None
        context = ssl.create_default_context(cafile=self.ca_file or None)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file)
        return context

    def for_kopf(self) -> kopf.ConnectionInfo:
        """Return the same in kopf's words."""
        return kopf.ConnectionInfo(
            server=self.url,
            ca_path=self.ca_file or None,
            certificate_path=self.certificate_file or None,
            private_key_path=self.key_file or None,
            token=self.token() or None,
            insecure=self.insecure or None,
        )


def find_api_server(
    kubeconfig: Path | None, environment: Mapping[str, str], scratch: Path
) -> ApiServer:
    """Return the API server of a kubeconfig, or of the pod that this runs in.

    Args:
        kubeconfig: None: ``KUBECONFIG``, else the pod's service account.
        environment: The process's variables.
        scratch: Folder for certificates that stand inside the kubeconfig.

    Raises:
        CredentialsError: There is none, or it cannot be read.
    """
    named = environment.get("KUBECONFIG", "")
    path = kubeconfig or (Path(named) if named else None)
    if path is not None:
        try:
            return _from_file(path, scratch)
        except (OSError, yaml.YAMLError, LookupError, ValueError) as error:
            raise CredentialsError(f"kubeconfig {path} cannot be used: {error}") from error
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if not host or not (ACCOUNT / "token").exists():
        raise CredentialsError(
            "no API server: this is no pod with a service account; give --kubeconfig"
        )
    host = f"[{host}]" if ":" in host else host
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    return ApiServer(
        f"https://{host}:{port}",
        ca_file=str(ACCOUNT / "ca.crt"),
        token_file=str(ACCOUNT / "token"),
    )


def _from_file(path: Path, scratch: Path) -> ApiServer:
    tree: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    context = _named(tree["contexts"], tree["current-context"])["context"]
    cluster = _named(tree["clusters"], context["cluster"])["cluster"]
    user = _named(tree["users"], context["user"])["user"]

    def file(source: Mapping[str, Any], name: str) -> str:
        if f"{name}-data" in source:
            data = base64.b64decode(source[f"{name}-data"])
            with tempfile.NamedTemporaryFile(dir=scratch, prefix=name, delete=False) as copy:
                copy.write(data)  # a file of this kind is readable by its owner only
            return copy.name
        return str(path.parent / source[name]) if name in source else ""

    return ApiServer(
        cluster["server"].rstrip("/"),
        ca_file=file(cluster, "certificate-authority"),
        certificate_file=file(user, "client-certificate"),
        key_file=file(user, "client-key"),
        token_file=user.get("tokenFile", ""),
        token_text=user.get("token", ""),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
    )


def _named(entries: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise LookupError(f"no entry {name!r}")
