"""What applications import: consumer, producer, admin client."""

from sharemesh.client.admin import AdminClient
from sharemesh.client.async_admin import AsyncAdminClient
from sharemesh.client.async_consumer import AsyncShareConsumer
from sharemesh.client.async_producer import AsyncProducer
from sharemesh.client.connect import connect
from sharemesh.client.producer import Producer
from sharemesh.client.records import ConsumerRecord, TopicIdPartition
from sharemesh.client.run_options import RunOptions
from sharemesh.client.share_consumer import ShareConsumer
from sharemesh.domain.delivery_state import AcknowledgeType

__all__ = [
    "AcknowledgeType",
    "AdminClient",
    "AsyncAdminClient",
    "AsyncProducer",
    "AsyncShareConsumer",
    "ConsumerRecord",
    "Producer",
    "RunOptions",
    "ShareConsumer",
    "TopicIdPartition",
    "connect",
]
