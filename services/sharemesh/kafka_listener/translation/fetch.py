"""Fetch: told, because librdkafka takes brokers without it for very old ones, and refused."""

from sharemesh.domain.errors import ErrorCode
from sharemesh.kafka.messages import Content, KafkaMessage, error_code, milliseconds

_NOTHING = -1


def refused(asked: KafkaMessage) -> Content:
    """Return the answer: each partition says UNSUPPORTED_VERSION."""
    return {
        "throttle_time": milliseconds(0),
        "error_code": error_code(ErrorCode.NONE),
        "session_id": 0,
        "responses": [
            {
                "topic": getattr(topic, "topic", None),
                "topic_id": getattr(topic, "topic_id", None),
                "partitions": [
                    {
                        "partition_index": each.partition,
                        "error_code": error_code(ErrorCode.UNSUPPORTED_VERSION),
                        "high_watermark": _NOTHING,
                        "last_stable_offset": _NOTHING,
                        "log_start_offset": _NOTHING,
                        "aborted_transactions": None,
                        "preferred_read_replica": _NOTHING,
                        "records": b"",
                    }
                    for each in topic.partitions
                ],
            }
            for topic in asked.topics
        ],
    }
