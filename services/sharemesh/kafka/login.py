"""The login of one connection by SASL; secrets are read at each login and never logged."""

import asyncio
import importlib
import inspect
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from sharemesh.kafka.connection import BrokerConnection
from sharemesh.kafka.messages import in_milliseconds, refuse
from sharemesh.kafka.scram import ScramError, ScramExchange
from sharemesh.kafka.security import KafkaSecurity, KafkaSecurityError, SaslMechanism, secret_of
from sharemesh.kafka.versions import KafkaRequest
from sharemesh.ports.brokers import BrokerRefusedError, BrokerUnreachableError

RENEW_AT_PERCENT = 80
"""A session with a broker is replaced after this share of the life that the broker gave it."""

_REFUSED = 58, "SASL_AUTHENTICATION_FAILED"
_PROVIDERS = ThreadPoolExecutor(4, "kafka-oauth-provider")
"""Providers may ask a server without a loop; one that hangs takes no thread of anything else."""

_ALGORITHMS = {SaslMechanism.SCRAM_SHA_256: "sha256", SaslMechanism.SCRAM_SHA_512: "sha512"}


async def log_in(
    connection: BrokerConnection, security: KafkaSecurity, timeout_ms: int
) -> int | None:
    """Prove who this is; return after how many milliseconds to do it anew, None for never.

    Raises:
        BrokerRefusedError: The broker does not want this mechanism or this login.
        BrokerUnreachableError: There was no answer.
        KafkaSecurityError: A secret cannot be read.
    """
    mechanism = security.mechanism
    assert mechanism is not None
    answer = await connection.call(
        KafkaRequest.SASL_HANDSHAKE, {"mechanism": mechanism.value}, timeout_ms=timeout_ms
    )
    offered = ", ".join(answer.mechanisms)
    advice = (
        f"offers {offered}, not {mechanism.value}: change kafka_sasl_mechanism"
        if offered
        else "takes no logins: check that kafka_security is what this listener expects"
    )
    refuse(answer.error_code, f"{connection.listener} {advice}")
    lifetimes_ms: list[int] = []

    async def say(message: bytes) -> bytes:
        answer = await connection.call(
            KafkaRequest.SASL_AUTHENTICATE, {"auth_bytes": message}, timeout_ms=timeout_ms
        )
        if int(answer.error_code):
            raise _refused(connection, answer.error_message or "")
        lifetimes_ms.append(in_milliseconds(answer.session_lifetime))
        said: bytes = answer.auth_bytes
        return said

    try:
        if mechanism is SaslMechanism.OAUTHBEARER:
            await _bear_token(connection, security, say)
        elif mechanism is SaslMechanism.PLAIN:
            await say(f"\0{security.username}\0{_password(security)}".encode())
        else:
            await _scram(security, _ALGORITHMS[mechanism], say)
    except ScramError as error:
        raise _refused(connection, str(error)) from None
    except BrokerUnreachableError as error:
        raise BrokerUnreachableError(
            f"{error}; it was asked to log {connection.listener.principal} in, and may refuse "
            "that by closing the connection"
        ) from error
    return lifetimes_ms[-1] * RENEW_AT_PERCENT // 100 if lifetimes_ms[-1] > 0 else None


def _refused(connection: BrokerConnection, why: str) -> BrokerRefusedError:
    code, name = _REFUSED
    return BrokerRefusedError(
        code,
        name,
        f"{connection.listener} refused the login ({why}): check the user and its secret file, "
        "and that the broker knows them for this mechanism",
    )


Say = Callable[[bytes], Awaitable[bytes]]


async def _scram(security: KafkaSecurity, algorithm: str, say: Say) -> None:
    exchange = ScramExchange(
        algorithm, security.username, _password(security), secrets.token_urlsafe(24)
    )
    server_first = await say(exchange.first())
    # Thousands of hashes: not on the loop.
    exchange.check(await say(await asyncio.to_thread(exchange.final, server_first)))


async def _bear_token(connection: BrokerConnection, security: KafkaSecurity, say: Say) -> None:
    token = await _token(security)
    reason = await say(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if reason:  # the broker says why in JSON and wants a last word before it refuses
        await say(b"\x01")
        raise _refused(connection, reason.decode(errors="replace")[:500])


def _password(security: KafkaSecurity) -> str:
    assert security.password_file is not None
    return secret_of(security.password_file, "kafka_sasl_password_file")


async def _token(security: KafkaSecurity) -> str:
    if security.token_file is not None:
        return secret_of(security.token_file, "kafka_oauth_token_file").strip()
    loop = asyncio.get_running_loop()
    provider = await loop.run_in_executor(_PROVIDERS, _provider, security.token_provider)
    try:
        found = (
            await provider()
            if inspect.iscoroutinefunction(provider)
            else await loop.run_in_executor(_PROVIDERS, provider)
        )
    except Exception as error:
        raise KafkaSecurityError(
            f"kafka_oauth_provider {security.token_provider} failed: {type(error).__name__}"
        ) from error
    if not isinstance(found, str) or not found:
        raise KafkaSecurityError(
            f"kafka_oauth_provider {security.token_provider} returned no token"
        )
    return found


def _provider(name: str) -> Callable[[], object]:
    module, _, function = name.partition(":")
    try:
        found: Callable[[], object] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise KafkaSecurityError(
            f"kafka_oauth_provider {name} is no module:function that can be imported: {error}"
        ) from error
    except Exception as error:  # whatever the module does when it is imported
        raise KafkaSecurityError(
            f"kafka_oauth_provider {name} failed at its import: {type(error).__name__}"
        ) from error
    return found
