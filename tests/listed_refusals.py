"""An authorizer of tests: everything is allowed but what stands on a list."""

from collections.abc import Callable

from sharemesh.ports.authorizer import Operation, ResourceType


class ListedRefusals:
    """Fills ``Authorizer``; ``denied`` holds (operation, resource type, name) in Kafka's words."""

    def __init__(self) -> None:
        self.denied: set[tuple[str, str, str]] = set()
        self._listeners: dict[Callable[[], None], None] = {}

    def allows(
        self, principal: str, operation: Operation, resource: ResourceType, name: str
    ) -> bool:
        return (operation.value, resource.value, name) not in self.denied

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._listeners[callback] = None
        return lambda: self._listeners.pop(callback, None)

    def changed(self) -> None:
        """Notify those who listen that the list is another one."""
        for listener in tuple(self._listeners):
            listener()
