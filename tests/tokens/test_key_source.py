"""Where key sets come from: files and https, within bounds of bytes and time (IDN-6)."""

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from sharemesh.tokens import key_source
from sharemesh.tokens.key_source import (
    KEY_SET_BYTES_MAX,
    KeySetAddress,
    KeySetFile,
    KeySourceError,
)


@pytest.fixture
async def issuer(tmp_path):
    """An https server that answers as the test says; returns its address and what it heard."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    (tmp_path / "token").write_text("proof\n")
    said: dict[str, bytes | None] = {"answer": None}
    heard: list[bytes] = []

    async def serve(reader, writer):
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        if said["answer"] is not None:
            writer.write(said["answer"])
            await writer.drain()
            writer.close()
        else:
            await reader.read()  # silence until the client leaves
            writer.close()

    server = await asyncio.start_server(serve, "localhost", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    source = KeySetAddress(
        f"https://localhost:{port}/openid/v1/jwks",
        authority=tmp_path / "ca.crt",
        token_file=tmp_path / "token",
    )
    yield source, said, heard
    server.close()


def answer(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *more, "", ""]
    return "\r\n".join(lines).encode() + body


async def test_idn_6_the_set_is_fetched_with_a_token_that_is_read_each_time(
    issuer, tmp_path
) -> None:
    source, said, heard = issuer
    said["answer"] = answer(b"{}")
    assert await source.read() == b"{}"
    (tmp_path / "token").write_text("newer")
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n"
    said["answer"] = chunked
    assert await source.read() == b"[]"
    assert [b"Bearer proof" in heard[0], b"Bearer newer" in heard[1]] == [True, True]
    assert heard[0].startswith(b"GET /openid/v1/jwks HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("said_by_server", "words"),
    [
        (answer(b"x" * (KEY_SET_BYTES_MAX + 1)), "larger than"),
        (answer(b"Bearer proof", "401 Unauthorized"), "HTTP status 401"),
        (answer(b"", "302 Found", "Location: http://127.0.0.1/"), "HTTP status 302"),
        (b"garbage proof\r\n\r\n", "BadStatusLine"),
    ],
)
async def test_idn_6_other_answers_are_refused(issuer, said_by_server, words) -> None:
    source, said, _ = issuer
    said["answer"] = said_by_server
    with pytest.raises(KeySourceError, match=words) as refused:
        await source.read()
    assert "proof" not in str(refused.value)


async def test_idn_6_a_server_that_does_not_answer_is_left_in_time(issuer, monkeypatch) -> None:
    monkeypatch.setattr(key_source, "FETCH_TIMEOUT_MS", 200)
    source, _, heard = issuer
    with pytest.raises(KeySourceError, match="no whole answer in 200 ms"):
        await source.read()
    assert len(heard) == 1


async def test_idn_6_the_server_must_be_of_the_authority(issuer, tmp_path) -> None:
    source, said, heard = issuer
    said["answer"] = answer(b"{}")
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.crt")
    with pytest.raises(KeySourceError, match="certificate verify failed"):
        await source.read()
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(KeySourceError, match="cannot ask"):
        await source.read()
    assert not heard, "and nobody else is shown the token"


@pytest.mark.parametrize(
    "url",
    ["http://issuer/jwks", "https://", "https://user:password@issuer/", "https://issuer:0x/"],
)
def test_idn_6_an_address_is_https_with_a_host(url) -> None:
    with pytest.raises(KeySourceError, match="no https URL"):
        KeySetAddress(url)


async def test_idn_6_a_file_is_read_within_the_bound(tmp_path) -> None:
    path = Path(tmp_path / "keys.json")
    with pytest.raises(KeySourceError, match="cannot read"):
        await KeySetFile(path).read()
    path.write_bytes(b"x" * (KEY_SET_BYTES_MAX + 1))
    with pytest.raises(KeySourceError, match="larger than"):
        await KeySetFile(path).read()
    path.write_bytes(b"{}")
    assert await KeySetFile(path).read() == b"{}"
