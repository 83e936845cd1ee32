"""What is kept of users, and what a user who does not exist is treated as."""

import hashlib
import hmac
from types import SimpleNamespace

from sharemesh.domain.scram_credentials import ScramCredential, ScramMechanism
from sharemesh.kafka_listener.login import mechanisms
from sharemesh.kafka_listener.login.mechanisms import KnownUsers

KEPT = ScramCredential(b"salt", 8_192, b"stored", b"server")


class Alice:
    """Fills the port of credentials: there is one user."""

    def credential(self, name, _):
        return KEPT if name == "alice" else None


def test_the_same_is_computed_for_a_user_who_exists(monkeypatch):
    """KLS-22: how long a first answer takes does not tell who exists."""
    done = []

    def digest(*given):
        done.append("digest")
        return hmac.digest(*given)

    def new(*given):
        done.append("hash")
        return hashlib.new(*given)

    monkeypatch.setattr(mechanisms, "hmac", SimpleNamespace(digest=digest))
    monkeypatch.setattr(mechanisms, "hashlib", SimpleNamespace(new=new))
    users = KnownUsers(Alice(), b"of the cluster")
    for mechanism in ScramMechanism:
        assert users.find("alice", mechanism) == (KEPT, True)
        of_alice, done[:] = list(done), []
        assert users.find("nobody", mechanism)[1] is False
        assert of_alice == done == ["digest", "hash"]
        done.clear()
