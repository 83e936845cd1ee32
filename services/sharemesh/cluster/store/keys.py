"""Where things stand in the coordination store.

``/sharemesh/<cluster id>/`` and below it:

    cluster                         format, shard counts; written once
    members/<node id>               a live process (leased)
    election/<name>/<lease>         candidates; the oldest leads (leased)
    epoch/<name>                    the highest epoch of a coordinator shard; survives
    topics/<name>                   one record a topic
    assign/<topic id>/<partition>   who should lead, standbys, the highest leader epoch
    lead/<topic id>/<partition>     who does lead: the claim (leased)
    trouble/<topic id>/<partition>  why the assigned leader cannot lead it (leased)
    deleted/<topic id>              a topic is gone: directories are to be freed, or it may return
    storage                         which engine keeps the logs, and where; written once
    storage-owner                   by which id this store owns topics of a Kafka cluster
    storage-problems/<topic>        what is wrong with a topic of the cluster's own
    seen/<name>                     how far the log of a coordinator shard was confirmed
    damaged/<name>                  why the log of a coordinator shard cannot be read
    followed/<topic id>/<partition> how far a partition of the Kafka cluster was confirmed
    wanted/<name>                   a topic of the Kafka cluster that a group subscribes to
    attached/<name>                 a topic of the Kafka cluster that somebody asked to attach
    configs/cluster/default         settings of the cluster
    configs/group/<group id>        settings of a group
    features/share_version          feature level
    producer-ids                    the next free producer id
    kafka-nodes/next                the next free number of a process for Kafka's clients
    kafka-nodes/of/<node id>        the number of a process for Kafka's clients, for ever
    acls/<rule id>                  one access rule each: the authorizer's table
    typed-acls/<type>/<rule id>     access rules of types of resources that 0.1.0 does not know
    quotas/<type>/named/<name>      quotas of one principal or group
    quotas/<type>/default           quotas of all others of a type
    users/<name>                    what is kept of a user's password
    login-secret                    what salts of users are made with who do not exist
"""

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import (
    GroupId,
    NodeId,
    TopicId,
    TopicPartition,
    format_topic_id,
    parse_topic_id,
)
from sharemesh.domain.quota.names import EntityType, QuotaEntity
from sharemesh.ports.cluster import ShardKind

ROOT = "/sharemesh"
CONTROLLER = "controller"
NAMED = "named/"
_ENTITY_TYPES = {each.value: each for each in EntityType}


class Keys:
    """The keys of one cluster."""

    def __init__(self, cluster_id: str) -> None:
        if not cluster_id or "/" in cluster_id:
            raise ValueError(
                f"cluster id {cluster_id!r} is empty or holds a slash; choose another name"
            )
        self.cluster_id = cluster_id
        self.prefix = f"{ROOT}/{cluster_id}/"
        self.cluster = f"{self.prefix}cluster"
        self.members = f"{self.prefix}members/"
        self.elections = f"{self.prefix}election/"
        self.epochs = f"{self.prefix}epoch/"
        self.topics = f"{self.prefix}topics/"
        self.assignments = f"{self.prefix}assign/"
        self.claims = f"{self.prefix}lead/"
        self.troubles = f"{self.prefix}trouble/"
        self.deletions = f"{self.prefix}deleted/"
        self.storage = f"{self.prefix}storage"
        self.storage_owner = f"{self.prefix}storage-owner"
        self.storage_problems = f"{self.prefix}storage-problems/"
        self.seen = f"{self.prefix}seen/"
        self.damaged = f"{self.prefix}damaged/"
        self.followed = f"{self.prefix}followed/"
        self.wanted = f"{self.prefix}wanted/"
        self.attached = f"{self.prefix}attached/"
        self.cluster_configs = f"{self.prefix}configs/cluster/default"
        self.group_configs = f"{self.prefix}configs/group/"
        self.share_version = f"{self.prefix}features/share_version"
        self.producer_ids = f"{self.prefix}producer-ids"
        self.next_kafka_node = f"{self.prefix}kafka-nodes/next"
        self.kafka_nodes = f"{self.prefix}kafka-nodes/of/"
        self.acls = f"{self.prefix}acls/"
        self.typed_acls = f"{self.prefix}typed-acls/"
        self.quotas = f"{self.prefix}quotas/"
        self.users = f"{self.prefix}users/"
        self.login_secret = f"{self.prefix}login-secret"

    def member(self, node_id: NodeId) -> str:
        """Return the registration of a node."""
        return f"{self.members}{node_id}"

    def kafka_node(self, node_id: NodeId) -> str:
        """Return the number of a node for Kafka's clients."""
        return f"{self.kafka_nodes}{node_id}"

    def election(self, name: str) -> str:
        """Return the election (its candidates stand below)."""
        return f"{self.elections}{name}"

    def epoch(self, name: str) -> str:
        """Return the epoch of a shard election."""
        return f"{self.epochs}{name}"

    def storage_problem(self, topic: str) -> str:
        """Return what is wrong with a topic of the cluster's own."""
        return f"{self.storage_problems}{topic}"

    def seen_log(self, name: str) -> str:
        """Return what was confirmed of the log of a coordinator shard."""
        return f"{self.seen}{name}"

    def damaged_log(self, name: str) -> str:
        """Return why the log of a coordinator shard cannot be read."""
        return f"{self.damaged}{name}"

    def seen_partition(self, partition: TopicPartition) -> str:
        """Return what was confirmed of a partition of the Kafka cluster."""
        return f"{self.followed}{partition_path(partition)}"

    def seen_topic(self, topic_id: TopicId) -> str:
        """Return what those of all partitions of a topic begin with."""
        return f"{self.followed}{format_topic_id(topic_id)}/"

    def topic(self, name: str) -> str:
        """Return the record of a topic."""
        return f"{self.topics}{name}"

    def assignment(self, partition: TopicPartition) -> str:
        """Return the assignment of a topic-partition."""
        return f"{self.assignments}{partition_path(partition)}"

    def claim(self, partition: TopicPartition) -> str:
        """Return the claim on a topic-partition."""
        return f"{self.claims}{partition_path(partition)}"

    def trouble(self, partition: TopicPartition) -> str:
        """Return the note why a topic-partition cannot be led."""
        return f"{self.troubles}{partition_path(partition)}"

    def deletion(self, topic_id: TopicId) -> str:
        """Return the note that a topic's directories are still to be freed."""
        return f"{self.deletions}{format_topic_id(topic_id)}"

    def wanted_topic(self, name: str) -> str:
        """Return the note that groups want a topic."""
        return f"{self.wanted}{name}"

    def attached_topic(self, name: str) -> str:
        """Return the note that somebody asked to attach a topic."""
        return f"{self.attached}{name}"

    def acl(self, rule_id: str) -> str:
        """Return an access rule."""
        return f"{self.acls}{rule_id}"

    def typed_acl(self, resource: str, rule_id: str) -> str:
        """Return an access rule of a type of resource that 0.1.0 does not know."""
        return f"{self.typed_acls}{resource}/{rule_id}"

    def quota(self, entity: QuotaEntity) -> str:
        """Return the quotas of an entity; its name may hold any character."""
        place = "default" if entity.name is None else f"{NAMED}{entity.name}"
        return f"{self.quotas}{entity.entity_type.value}/{place}"

    def user(self, name: str) -> str:
        """Return what is kept of a user's password; the name may hold any character."""
        return f"{self.users}{name}"

    def group_config(self, group_id: GroupId) -> str:
        """Return the settings of a group; its id may hold any character."""
        return f"{self.group_configs}{group_id}"


def election_name(kind: ShardKind, shard: int) -> str:
    """Return the name of a shard's election, for example ``group-7``."""
    return f"{kind}-{shard}"


def partition_path(partition: TopicPartition) -> str:
    """Return ``<topic id>/<partition>``."""
    return f"{format_topic_id(partition.topic_id)}/{partition.partition}"


def parse_quota_path(path: str) -> QuotaEntity | None:
    """Return the entity of a key below ``quotas/``, or None for types of newer builds."""
    type_text, _, place = path.partition("/")
    entity_type = _ENTITY_TYPES.get(type_text)
    if entity_type is None:
        return None
    if place.startswith(NAMED):
        return QuotaEntity(entity_type, place.removeprefix(NAMED))
    return QuotaEntity(entity_type, None) if place == "default" else None


def parse_partition_path(path: str) -> TopicPartition | None:
    """Return what ``partition_path`` wrote, or None for anything else."""
    topic_text, _, number = path.partition("/")
    if not number.isdecimal():
        return None
    try:
        return TopicPartition(parse_topic_id(topic_text), int(number))
    except RefusedError:
        return None
