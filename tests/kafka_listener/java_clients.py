"""Kafka's own Java clients, driven from here: Py4J, which comes with PySpark, over the pinned jars.

A Java runtime is enough; nothing is compiled.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway

from tests.etcd_server import die_with_parent
from tests.kafka.jars import HERE, jars, java


@contextlib.contextmanager
def java_gateway() -> Iterator[JavaGateway]:
    """Yield a Java process with Kafka's clients; it ends with the block."""
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    command = (
        *(java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Dlog4j2.configurationFile=file:{HERE / 'log4j2.properties'}",
        *("-cp", f"{jars()}/*{os.pathsep}{py4j}"),
        *("py4j.GatewayServer", "--die-on-broken-pipe", "0"),
    )
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "KAFKA_LOG_LEVEL": "ERROR"},
        preexec_fn=die_with_parent,  # noqa: PLW1509
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        try:
            yield gateway
        finally:
            gateway.close()
            process.kill()


class JavaClients:
    """Producers and share consumers of kafka-clients."""

    def __init__(self, gateway: JavaGateway, bootstrap: str) -> None:
        self.jvm = gateway.jvm
        self.clients = gateway.jvm.org.apache.kafka.clients
        self.serialization = gateway.jvm.org.apache.kafka.common.serialization
        self.bootstrap = bootstrap

    def properties(self, **more: str):
        properties = self.jvm.java.util.Properties()
        properties.put("bootstrap.servers", self.bootstrap)
        for name, value in more.items():
            properties.put(name.replace("_", "."), value)
        return properties

    def producer(self, **more: str):
        serializer = self.serialization.StringSerializer
        return self.clients.producer.KafkaProducer(
            self.properties(**more), serializer(), serializer()
        )

    def consumer(self, group: str, **more: str):
        deserializer = self.serialization.StringDeserializer
        return self.clients.consumer.KafkaShareConsumer(
            self.properties(group_id=group, **more), deserializer(), deserializer()
        )

    def reader(self, **more: str):
        """Return a consumer that assigns partitions to itself."""
        deserializer = self.serialization.StringDeserializer
        return self.clients.consumer.KafkaConsumer(
            self.properties(**more), deserializer(), deserializer()
        )

    def send(self, producer, topic: str, *values: str) -> list[int]:
        """Send values to partition 0 and return their offsets."""
        record = self.clients.producer.ProducerRecord
        partition = self.jvm.java.lang.Integer.valueOf(0)
        sent = [producer.send(record(topic, partition, None, each)) for each in values]
        producer.flush()
        return [each.get().offset() for each in sent]

    def poll(self, consumer, wait_ms: int = 500) -> list:
        records = consumer.poll(self.jvm.java.time.Duration.ofMillis(wait_ms)).iterator()
        found = []
        while records.hasNext():
            found.append(records.next())
        return found

    def polled(self, consumer, wanted: int) -> list:
        """Return the records of polls until there are so many."""
        found = []
        for _ in range(120):
            found += self.poll(consumer)
            if len(found) >= wanted:
                return found
        raise AssertionError(f"{len(found)} of {wanted} records")

    @property
    def kind(self):
        return self.clients.consumer.AcknowledgeType

    def committed(self, consumer) -> list:
        """Return the errors of a synchronous commit, by partition."""
        return [each.isPresent() for each in consumer.commitSync().values()]
