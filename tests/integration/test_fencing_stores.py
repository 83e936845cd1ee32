"""The functions of docs/guides/fencing.md, as they stand there, on stores that behave (TOK-3)."""

import contextlib
import itertools
import random
import threading
from pathlib import Path

import pytest

from sharemesh.client.records import FencingToken
from tests.docs.pages import steps
from tests.redis_server import RedisClient, redis_server
from tests.s3_server import S3Client, s3_server

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "fencing.md"
WRITERS, EACH = 4, 25


def defined(name):
    """Return a function that a block of the guide defines."""
    [code] = [each.code for each in steps(GUIDE.read_text()) if f"def {name}(" in each.code]
    namespace = {}
    exec(code, namespace)
    return namespace[name]


def token(number):
    return FencingToken(0, 1, number, 1)


def written_by_many(put):
    """Let threads write tokens in any order; return those whose write took effect, by thread."""
    numbers = list(range(1, WRITERS * EACH + 1))
    random.Random(7).shuffle(numbers)
    done = [[] for _ in range(WRITERS)]

    def write(mine):
        for number in numbers[mine::WRITERS]:
            if put(token(number), str(number)):
                done[mine].append(number)

    threads = [threading.Thread(target=write, args=(mine,)) for mine in range(WRITERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return [number for some in done for number in some]


@pytest.fixture
def s3():
    with s3_server() as (store, port):
        yield store, S3Client(port)


def test_tok_3_of_many_writers_the_latest_delivery_has_the_object_in_the_end(s3):
    store, client = s3
    put = defined("put")
    done = written_by_many(lambda token, value: put(client, "b", "k", value.encode(), token))
    latest = WRITERS * EACH
    assert latest in done
    assert store.objects["/b/k"].body == f"{token(latest)}\n{latest}".encode()
    assert not put(client, "b", "k", b"stale", token(latest - 1))


def test_tok_3_a_write_between_look_and_write_is_seen_though_it_says_the_same(s3):
    """An ETag is of the body alone: with the token in it no two deliveries leave the same one."""
    store, client = s3
    put, port = defined("put"), client._port
    assert put(client, "b", "k", b"paid", token(1))
    later = itertools.count(3)

    def another_delivery():
        if next(later) == 3:
            assert put(S3Client(port), "b", "k", b"paid", token(3))

    client.between = another_delivery
    assert not put(client, "b", "k", b"stale", token(2))
    assert store.objects["/b/k"].token == str(token(3))


def test_tok_3_an_object_that_is_deleted_between_look_and_write_is_looked_for_again(s3):
    store, client = s3
    put = defined("put")
    assert put(client, "b", "k", b"paid", token(1))
    client.between = lambda: store.objects.pop("/b/k", None)
    assert put(client, "b", "k", b"again", token(2))
    assert store.objects["/b/k"].token == str(token(2))


def test_tok_3_redis_takes_no_write_of_an_earlier_delivery():
    put = defined("put_in_redis")
    with redis_server() as path, contextlib.ExitStack() as stack:
        clients = threading.local()

        def client():
            if not hasattr(clients, "mine"):
                clients.mine = RedisClient(path)
                stack.callback(clients.mine.close)
            return clients.mine

        done = written_by_many(lambda token, value: put(client(), "k", value, token))
        latest = WRITERS * EACH
        assert latest in done
        assert client().command("HGET", "k", "value") == str(latest).encode()
        assert not put(client(), "k", "stale", token(latest - 1))
        assert put(client(), "k", "the same again", token(latest))
