"""How a listener is spoken to: TLS from files, and with which login (spec KBR)."""

import ssl
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class KafkaSecurityError(Exception):
    """A file or a provider of tokens cannot be used; the message names the setting."""


class SecurityProtocol(Enum):
    """What a listener speaks, by the value of ``kafka_security``."""

    PLAINTEXT = "plaintext"
    TLS = "tls"
    SASL_PLAINTEXT = "sasl_plaintext"
    SASL_TLS = "sasl_tls"

    @property
    def encrypts(self) -> bool:
        """Whether it is TLS."""
        return self in {SecurityProtocol.TLS, SecurityProtocol.SASL_TLS}

    @property
    def logs_in(self) -> bool:
        """Whether it wants a login."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_TLS}


class SaslMechanism(Enum):
    """How a login is proved, by the value of ``kafka_sasl_mechanism``."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class KafkaSecurity:
    """How brokers are spoken to; secrets stay in their files, which each login reads anew.

    Attributes:
        protocol: What the listener speaks.
        authority: PEM of whoever signed the brokers' certificates; None: the system's.
        certificate: PEM of a client certificate (mTLS), together with ``key``.
        key: Its key.
        mechanism: How to log in, where the protocol wants it.
        username: Of PLAIN and SCRAM.
        password_file: Of PLAIN and SCRAM; a line break at its end is not part of the password.
        token_file: Of OAUTHBEARER, or
        token_provider: ``module:function``; the function returns a token, or awaits one.
    """

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    mechanism: SaslMechanism | None = None
    username: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    token_provider: str = ""

    @property
    def principal(self) -> str:
        """Who logs in, for messages."""
        if self.mechanism is SaslMechanism.OAUTHBEARER:
            return f"the token of {self.token_provider or self.token_file}"
        if self.username:
            return f"User:{self.username}"
        return f"the certificate {self.certificate}" if self.certificate else ""

    def check_secrets(self) -> None:
        """Read the file that a login will read; each login reads it anew.

        Raises:
            KafkaSecurityError: It cannot be used.
        """
        if self.mechanism is None:
            return
        if self.password_file is not None:
            secret_of(self.password_file, "kafka_sasl_password_file")
        if self.token_file is not None:
            secret_of(self.token_file, "kafka_oauth_token_file")

    def tls(self) -> ssl.SSLContext | None:
        """Return what a new connection is encrypted with, from the files as they are now.

        Raises:
            KafkaSecurityError: A file cannot be used.
        """
        if not self.protocol.encrypts:
            return None
        try:
            context = ssl.create_default_context(cafile=self.authority)
        except (OSError, ssl.SSLError) as error:
            raise KafkaSecurityError(
                f"kafka_tls_authority {self.authority} cannot be used: {error}; set it to a PEM "
                "file that this process may read"
            ) from error
        if self.certificate is not None and self.key is not None:
            try:
                # A key that is encrypted is refused: OpenSSL would ask at the terminal, and wait.
                context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
            except (OSError, ssl.SSLError, ValueError) as error:
                raise KafkaSecurityError(
                    f"kafka_tls_certificate {self.certificate} and kafka_tls_key {self.key} "
                    f"cannot be used together: {error}"
                ) from error
        return context


PLAINTEXT = KafkaSecurity()


def secret_of(path: Path, setting: str) -> str:
    """Return the text of a file without the line break at its end.

    Raises:
        KafkaSecurityError: It cannot be read, or holds nothing.
    """
    try:
        secret = path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        kind = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise KafkaSecurityError(
            f"{setting} {path} cannot be read: {kind}; correct the setting, or the file and its "
            "rights"
        ) from None
    if not secret:
        raise KafkaSecurityError(f"{setting} {path} is empty; write the secret to it")
    return secret
