"""Whether gRPC works in this process: not if it was in use when the process was forked.

gRPC's asyncio layer takes its events in a thread, and a fork leaves that thread behind: calls of
the new process would never be answered.
"""

import os
import weakref
from typing import Protocol


class User(Protocol):
    """Somebody who uses gRPC."""

    @property
    def is_connected(self) -> bool:
        """Whether connections are open."""
        ...


class ForkWatch:
    """Knows the users of gRPC, and after a fork whether one was connected then."""

    def __init__(self) -> None:
        self._users: weakref.WeakSet[User] = weakref.WeakSet()
        self.is_left_behind = False
        """Whether gRPC's threads stayed in another process."""

    def add(self, user: User) -> None:
        """Look at a user when the process forks, as long as it lives."""
        self._users.add(user)

    def forked(self) -> None:
        """Look whether gRPC was in use; in the new process."""
        if any(user.is_connected for user in self._users):
            self.is_left_behind = True


GRPC_USERS = ForkWatch()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=GRPC_USERS.forked)
