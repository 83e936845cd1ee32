"""Requests that no good client sends: each is answered, and the coordinator goes on."""

import random

import pytest

from sharemesh import methods
from sharemesh.methods import Kind
from tests.group_coordinator.world import assigned, topic_id, world

TEXTS = ("", "g", "m1", "foo", "nowhere", "x" * 2_000, "\0", "ü:/", "share.delivery.count.limit")
NUMBERS = (0, 1, -1, 2, 5, 2**31 - 1, -(2**31))
UNARY = [
    method
    for method in methods.METHODS
    if method.name.startswith("GroupCoordinator/") and method.kind is Kind.UNARY
]


def filled(message, chance, depth=0):
    """Fill fields by chance; repeated ones get up to three values."""
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.25:
            continue
        times = chance.randrange(4) if field.is_repeated else 1
        for _ in range(times):
            if field.message_type is not None:
                if depth < 4:
                    part = getattr(message, field.name)
                    inner = part.add() if field.is_repeated else part
                    if not field.is_repeated:
                        inner.SetInParent()
                    filled(inner, chance, depth + 1)
                continue
            value = value_of(field, chance)
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
    return message


def value_of(field, chance):
    kinds = {
        field.TYPE_STRING: TEXTS,
        field.TYPE_BOOL: (True, False),
        field.TYPE_BYTES: (b"", b"x"),
    }
    value = chance.choice(kinds.get(field.type, NUMBERS))
    return min(value, 5) if field.name == "max_wait_ms" else value


@pytest.mark.parametrize("seed", range(5))
async def test_random_requests_are_answered(seed):
    chance = random.Random(seed)
    async with world(foo=2) as made:
        for _ in range(400):
            method = chance.choice(UNARY)
            request = filled(method.request(), chance)
            await made.call(method, request)
        answer = await made.joined("good", ["foo"], group="fresh")
        assert assigned(answer) == {topic_id("foo"): [0, 1]}, f"seed {seed}"
        machine = made.service.served[0].shard.peek(lambda each: each)
        machine.validate()
