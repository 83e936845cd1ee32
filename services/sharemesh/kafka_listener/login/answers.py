"""SaslHandshake and SaslAuthenticate: answered here, by no method of gRPC (spec KLS-20)."""

from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds
from sharemesh.kafka_listener.login.logins import ConnectionLogin
from sharemesh.kafka_listener.login.refusal import LoginRefusedError

UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
SASL_AUTHENTICATION_FAILED = 58


class LoginAnswer:
    """The content of an answer, and why the connection is closed behind it; empty: it stays."""

    def __init__(self, content: Content, closed_for: str = "") -> None:
        self.content = content
        self.closed_for = closed_for


def handshake(login: ConnectionLogin, asked: KafkaMessage) -> LoginAnswer:
    """Answer which mechanisms there are, and begin a login."""
    if not login.is_wanted:
        return LoginAnswer(
            {"error_code": error_code(ILLEGAL_SASL_STATE), "mechanisms": []},
            "it began to log in where nobody does: set security.protocol to PLAINTEXT or SSL",
        )
    if login.is_under_way:
        return LoginAnswer(
            {"error_code": error_code(ILLEGAL_SASL_STATE), "mechanisms": login.mechanisms},
            "it began to log in again before its login had ended",
        )
    if login.choose(asked.mechanism):
        return LoginAnswer({"error_code": error_code(0), "mechanisms": login.mechanisms})
    return LoginAnswer(
        {"error_code": error_code(UNSUPPORTED_SASL_MECHANISM), "mechanisms": login.mechanisms},
        f"it asked for SASL mechanism {asked.mechanism[:40]!r}; here are "
        f"{', '.join(login.mechanisms)}",
    )


async def authenticate(login: ConnectionLogin, asked: KafkaMessage) -> LoginAnswer:
    """Answer one step of a login."""
    if not login.is_under_way:
        why = "SaslAuthenticate comes behind a SaslHandshake, once for each login"
        return LoginAnswer(_refused(ILLEGAL_SASL_STATE, why), why)
    try:
        said, lasts_ms = await login.say(asked.auth_bytes)
    except LoginRefusedError as refused:
        return LoginAnswer(_refused(SASL_AUTHENTICATION_FAILED, str(refused)), str(refused))
    return LoginAnswer(_content(0, None, said, lasts_ms))


def _refused(code: int, why: str) -> Content:
    return _content(code, why, b"", 0)


def _content(code: int, message: str | None, said: bytes, lasts_ms: int) -> Content:
    return {
        "error_code": error_code(code),
        "error_message": message,
        "auth_bytes": said,
        "session_lifetime": milliseconds(lasts_ms),
    }
