"""Object stores in processes of their own, for tests, on free ports.

moto speaks S3's protocol, gcp-storage-emulator that of Google's store.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.etcd_server import die_with_parent
from tests.free_ports import free_port

BUCKET = "mesh"
START_S = 60
REGION = "us-east-1"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}


_GOOGLES = """
import http.server, sys
from gcp_storage_emulator import server
server.server.HTTPServer = http.server.ThreadingHTTPServer  # its clients keep connections open
server.create_server("127.0.0.1", int(sys.argv[1]), in_memory=True).run()
"""


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """A running server with one bucket."""

    port: int
    scheme: str = "s3"

    def uri(self, folder: str) -> str:
        """Return the URI of a folder of the bucket."""
        override = f"endpoint_override=127.0.0.1:{self.port}&scheme=http"
        if self.scheme == "gs":
            return f"gs://anonymous@{BUCKET}/{folder}?{override}&retry_limit_seconds=2"
        return f"s3://{BUCKET}/{folder}?{override}&region={REGION}"


@contextmanager
def object_server(scheme: str = "s3") -> Iterator[ObjectServer]:
    """Start a server of ``s3`` or ``gs``; it forgets everything with the block.

    Clients of ``s3`` need ``CREDENTIALS``.
    """
    server = ObjectServer(free_port(), scheme)
    port = str(server.port)
    google = scheme == "gs"
    words = (
        ["-c", _GOOGLES, port] if google else ["-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    )
    with subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **CREDENTIALS},
        preexec_fn=die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
    ) as process:
        try:
            _make_bucket(_bucket_request(server), process)
            yield server
        finally:
            process.kill()


def _bucket_request(server: ObjectServer) -> urllib.request.Request:
    at = f"http://127.0.0.1:{server.port}"
    if server.scheme == "gs":
        head = {"Content-Type": "application/json"}
        body = json.dumps({"name": BUCKET}).encode()
        return urllib.request.Request(f"{at}/storage/v1/b?project=p", body, head)
    return urllib.request.Request(f"{at}/{BUCKET}", method="PUT")


def _make_bucket(request: urllib.request.Request, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no object server within {START_S} s") from error
        time.sleep(0.05)
