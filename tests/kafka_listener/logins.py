"""Clients' sides of logins, for tests: users in a mesh, and what clients say."""

from sharemesh.domain.bearer_tokens import BearerName, TokenRefusal
from sharemesh.kafka.scram import ScramExchange

HANDSHAKE, AUTHENTICATE = 17, 36
ALGORITHMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
PASSWORD = "a long password, kept apart"


class Tokens:
    """Fills the port of bearer tokens: a token is the name of its user."""

    def __init__(self, lasts_ms=60_000):
        self.lasts_ms = lasts_ms

    def known(self, token):
        if token == "stale":
            return TokenRefusal("the token has expired: send a newer one", stale=True)
        return BearerName(f"User:{token}", 1_000_000 + self.lasts_ms)

    def wall_ms(self):
        return 1_000_000


async def add_user(mesh, name, password=PASSWORD, mechanisms=tuple(ALGORITHMS)):
    """Create a user by the admin client, and wait until the process knows it."""
    problems = await mesh.admin().alter_user_scram_credentials(
        {name: dict.fromkeys(mechanisms, password)}
    )
    assert problems == {name: None}
    view = mesh.mesh.nodes[0].view
    assert await view.wait_for(lambda: name in view.tables.users, timeout_ms=5_000)


async def say(client, message):
    return await client.ask(AUTHENTICATE, 2, auth_bytes=message)


async def scram(client, mechanism, name, password=PASSWORD):
    """Log in, and return the last answer; the server's proof is checked."""
    exchange = ScramExchange(ALGORITHMS[mechanism], name, password, "nonce-of-the-client")
    first = await say(client, exchange.first())
    if first.error_code:
        return first
    last = await say(client, exchange.final(first.auth_bytes))
    if not last.error_code:
        exchange.check(last.auth_bytes)
    return last


async def log_in(client, mechanism, name, password=PASSWORD):
    """Choose a mechanism and log in; return the last answer."""
    chosen = await client.ask(HANDSHAKE, 1, mechanism=mechanism)
    assert int(chosen.error_code) == 0
    if mechanism == "PLAIN":
        return await say(client, f"\0{name}\0{password}".encode())
    if mechanism == "OAUTHBEARER":
        return await say(client, f"n,,\x01auth=Bearer {name}\x01\x01".encode())
    return await scram(client, mechanism, name, password)
