"""What is kept of users' passwords (spec KLS)."""

from typing import Protocol

from sharemesh.domain.scram_credentials import ScramCredential, ScramMechanism


class UserCredentials(Protocol):
    """Answers from memory: neither waits nor reads."""

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return what is kept of a user's password for a mechanism, or None."""
        ...
