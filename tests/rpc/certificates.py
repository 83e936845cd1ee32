"""Certificates of a test's own authority, as files."""

from pathlib import Path

import trustme

from sharemesh.rpc.tls import TlsFiles


def issue(authority: trustme.CA, directory: Path, name: str, subject: str) -> None:
    """Write NAME.key and NAME.crt, each replaced at once."""
    issued = authority.issue_cert("localhost", "127.0.0.1", common_name=subject)
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    for suffix, data in (("key", issued.private_key_pem.bytes()), ("crt", chain)):
        replace(directory / f"{name}.{suffix}", data)


def replace(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees all of it or the one before."""
    new = path.with_suffix(path.suffix + ".new")
    new.write_bytes(data)
    new.replace(path)


def files(directory: Path, name: str) -> TlsFiles:
    """Return what was issued to a name, with mutual trust."""
    return TlsFiles(directory / f"{name}.crt", directory / f"{name}.key", directory / "ca.crt")
