"""A store with the conditional writes of S3, over HTTP, and a client in the shape of boto3's.

What matters here is as Amazon documents it: an ETag is the MD5 of the body, whatever the metadata
say; ``If-Match`` and ``If-None-Match: *`` are decided atomically with the write; two writes at
once may end one of them with 409.
"""

import contextlib
import hashlib
import http.client
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONFLICT_EACH = 7
"""One of so many conditional writes is refused with 409, as if another one were under way."""

_CODES = {404: "NoSuchKey", 409: "ConditionalRequestConflict", 412: "PreconditionFailed"}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The newest version of a key."""

    body: bytes
    token: str

    @property
    def etag(self) -> str:
        """As S3 makes it: of the body alone."""
        return f'"{hashlib.md5(self.body, usedforsecurity=False).hexdigest()}"'


class ObjectStore:
    """What is stored, by path."""

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self._turn = threading.Lock()
        self._writes = 0

    def put(self, path: str, put: StoredObject, match: str | None, *, is_new: bool) -> int:
        """Write if the condition holds; return the status."""
        with self._turn:
            self._writes += 1
            there = self.objects.get(path)
            if self._writes % CONFLICT_EACH == 0:
                return 409
            if is_new and there is not None:
                return 412
            if match is not None:
                if there is None:
                    return 404
                if there.etag != match:
                    return 412
            self.objects[path] = put
            return 200


def _handler(store: ObjectStore) -> type[BaseHTTPRequestHandler]:
    class ObjectRequests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            found = store.objects.get(self.path)
            self.send_response(404 if found is None else 200)
            if found is not None:
                self.send_header("ETag", found.etag)
                self.send_header("x-amz-meta-token", found.token)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            put = StoredObject(body, self.headers["x-amz-meta-token"])
            is_new = self.headers.get("If-None-Match") == "*"
            self.send_response(
                store.put(self.path, put, self.headers.get("If-Match"), is_new=is_new)
            )
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return ObjectRequests


class ClientError(Exception):
    """What boto3 raises for an answer that is an error."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


class S3Client:
    """The two calls of boto3's client that the guide uses; ``between`` runs before each write."""

    class exceptions:  # noqa: N801
        ClientError = ClientError

    def __init__(self, port: int) -> None:
        self._port = port
        self.between: Callable[[], object] = lambda: None

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
        if answer.status != 200:
            code = str(answer.status) if method == "HEAD" else _CODES[answer.status]
            raise ClientError(code)
        return answer.headers

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        headers = self._ask("HEAD", f"/{Bucket}/{Key}", None, {})
        return {"ETag": headers["ETag"], "Metadata": {"token": headers["x-amz-meta-token"]}}

    def put_object(
        self,
        *,
        Bucket: str,  # noqa: N803
        Key: str,  # noqa: N803
        Body: bytes,  # noqa: N803
        Metadata: dict[str, str],  # noqa: N803
        IfMatch: str | None = None,  # noqa: N803
        IfNoneMatch: str | None = None,  # noqa: N803
    ) -> None:
        self.between()
        headers = {f"x-amz-meta-{name}": value for name, value in Metadata.items()}
        headers |= {"If-Match": IfMatch} if IfMatch is not None else {}
        headers |= {"If-None-Match": IfNoneMatch} if IfNoneMatch is not None else {}
        self._ask("PUT", f"/{Bucket}/{Key}", Body, headers)


@contextlib.contextmanager
def s3_server() -> Iterator[tuple[ObjectStore, int]]:
    """Start one; yields what it stores, and its port."""
    store = ObjectStore()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(store))
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield store, server.server_port
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
