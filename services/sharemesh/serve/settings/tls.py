"""The certificate files of a process, as the transport wants them."""

from sharemesh.ports.clock import Clock
from sharemesh.rpc.server_certificates import ServerCertificates
from sharemesh.rpc.tls import TlsFiles
from sharemesh.serve.settings.settings import ServeSettings


def tls_files(settings: ServeSettings) -> TlsFiles | None:
    """Return the files for servers and for calls to other processes, or None without TLS."""
    if settings.tls_certificate is None:
        return None
    return TlsFiles(
        settings.tls_certificate,
        settings.tls_key,
        settings.tls_authority,
        demand_certificates=settings.tls_client_certificates == "required",
    )


def server_certificates(settings: ServeSettings, clock: Clock) -> ServerCertificates | None:
    """Return what a server of this process shows, or None without TLS."""
    files = tls_files(settings)
    return None if files is None else ServerCertificates(files, clock)
