"""AdminClient is AsyncAdminClient for threads: nothing missing, nothing different."""

import inspect

import pytest

from sharemesh.client import AdminClient, AsyncAdminClient

COROUTINES = {
    name: method
    for name, method in inspect.getmembers(AsyncAdminClient, inspect.iscoroutinefunction)
    if not name.startswith("_")
}


def test_every_coroutine_has_a_blocking_method() -> None:
    blocking = {name for name, _ in inspect.getmembers(AdminClient, inspect.isfunction)}
    assert len(COROUTINES) > 20
    assert set(COROUTINES) <= blocking


@pytest.mark.parametrize("name", sorted(COROUTINES))
def test_a_blocking_method_is_a_plain_function_with_signature_and_docstring(name: str) -> None:
    blocking = getattr(AdminClient, name)
    assert not inspect.iscoroutinefunction(blocking)
    assert inspect.signature(blocking) == inspect.signature(COROUTINES[name])
    assert blocking.__qualname__ == f"AdminClient.{name}"
    assert blocking.__doc__ == COROUTINES[name].__doc__


def test_a_wrong_argument_is_refused_without_a_call() -> None:
    with (
        AdminClient({"bootstrap.servers": "nowhere:1"}) as admin,
        pytest.raises(TypeError, match="partitons"),
    ):
        admin.create_topic("a", partitons=3)  # type: ignore[call-arg]
