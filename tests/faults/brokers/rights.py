"""Rights of Sharemesh's principal at the brokers: what the guide asks for, and taking it away."""

from dataclasses import replace
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from sharemesh.serve.settings.settings import ServeSettings

LISTENER = "GUARDED"
PRINCIPAL = "User:alice"
SECRET = "alices-secret"
ADMIN_S = 30
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
BROKER_SETTINGS: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # whoever comes by a listener without a login
    "sasl.enabled.mechanisms": "PLAIN",
    f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": (
        f'{_PLAIN} required user_alice="{SECRET}";'
    ),
    "listener.security.protocol.map": (
        f"CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT"
    ),
}
_OWN = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE", "DELETE", "CREATE")
_USERS = ("DESCRIBE", "DESCRIBE_CONFIGS", "READ")


def binding(topic: str, operation: str, *, prefix: bool = False, deny: bool = False) -> AclBinding:
    """Return one rule on topics for the principal."""
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL,
        PRINCIPAL,
        "*",
        AclOperation[operation],
        AclPermissionType.DENY if deny else AclPermissionType.ALLOW,
    )


def logged_in(serve: ServeSettings, folder: Path, bootstrap: str) -> ServeSettings:
    """Give the principal what the guide says it needs; return settings that log in with it."""
    own = [binding(serve.own_topic_prefix, each, prefix=True) for each in _OWN]
    _added(bootstrap, *own, *(binding("*", each) for each in _USERS))
    password = folder / "password"
    password.write_text(f"{SECRET}\n")
    return replace(
        serve,
        kafka_security="sasl_plaintext",
        kafka_sasl_mechanism="PLAIN",
        kafka_sasl_username="alice",
        kafka_sasl_password_file=password,
    )


def take_away(bootstrap: str, topic: str, operation: str) -> None:
    """Deny the principal an operation on a topic."""
    _added(bootstrap, binding(topic, operation, deny=True))


def give_back(bootstrap: str, topic: str, operation: str) -> None:
    """Deny it no more."""
    asked = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        PRINCIPAL,
        "*",
        AclOperation[operation],
        AclPermissionType.DENY,
    )
    admin = _admin(bootstrap)  # what it promises ends with it
    for future in admin.delete_acls([asked]).values():
        future.result(ADMIN_S)


def _added(bootstrap: str, *rules: AclBinding) -> None:
    admin = _admin(bootstrap)
    for future in admin.create_acls(list(rules)).values():
        future.result(ADMIN_S)


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
