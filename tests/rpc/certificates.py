"""Certificates of a test's own authority, as files, and as gRPC takes them."""

import datetime
from pathlib import Path

import grpc
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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


def named(authority: trustme.CA, common_name: str, *others: x509.GeneralName) -> bytes:
    """Return key and certificate, PEM, of any subject: what no careful authority would issue."""
    key = ec.generate_private_key(ec.SECP256R1())
    own_key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    assert isinstance(own_key, ec.EllipticCurvePrivateKey)
    now = datetime.datetime.now(datetime.UTC)
    texts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else []
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(texts))
        .issuer_name(x509.load_pem_x509_certificate(authority.cert_pem.bytes()).subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    if others:
        made = made.add_extension(x509.SubjectAlternativeName(others), critical=False)
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private = key.private_bytes(pem, *plain)
    return private + made.sign(own_key, hashes.SHA256()).public_bytes(pem)


def shown(authority: trustme.CA, pem: bytes) -> grpc.ChannelCredentials:
    """Return the credentials of a client that shows ``named``."""
    at = pem.index(b"-----BEGIN CERTIFICATE-----")
    return grpc.ssl_channel_credentials(authority.cert_pem.bytes(), pem[:at], pem[at:])
