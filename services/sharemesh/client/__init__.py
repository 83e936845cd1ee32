"""What applications import: consumer, producer, admin client."""

from sharemesh.client.admin.client import AdminClient, AsyncAdminClient
from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.connect import connect
from sharemesh.client.consumer.async_share_consumer import AsyncShareConsumer
from sharemesh.client.consumer.circuit_breaker import BreakerPolicy
from sharemesh.client.consumer.handler_failures import RunOptions
from sharemesh.client.consumer.retry_policy import RetryPolicy
from sharemesh.client.consumer.share_consumer import ShareConsumer
from sharemesh.client.producer.async_producer import AsyncProducer
from sharemesh.client.producer.producer import Producer
from sharemesh.client.record_columns import RecordColumns
from sharemesh.client.records import ConsumerRecord, FencingToken, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType

__all__ = [
    "AcknowledgeType",
    "AdminClient",
    "AsyncAdminClient",
    "AsyncProducer",
    "AsyncShareConsumer",
    "BreakerPolicy",
    "ConsumerRecord",
    "FencingToken",
    "Producer",
    "RecordColumns",
    "RetryPolicy",
    "RunOptions",
    "ShareConsumer",
    "TopicIdPartition",
    "TopicPartition",
    "connect",
]
