import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

/** Kafka's own clients at their defaults; each command prints one JSON object. */
public class PeerClient {
    static String bootstrap;

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        switch (words[1]) {
            case "topic" -> topic(words[2], Integer.parseInt(words[3]));
            case "produce" -> produce(words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]));
            case "consume" -> consume(words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]));
            case "latency" -> latency(words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
            default -> throw new IllegalArgumentException(words[1]);
        }
    }

    static Map<String, Object> config() {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap));
    }

    static void topic(String name, int partitions) throws Exception {
        try (Admin admin = Admin.create(config())) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        }
    }

    static String newGroup() throws Exception {
        String group = "g" + UUID.randomUUID();
        AlterConfigOp earliest = new AlterConfigOp(
            new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        try (Admin admin = Admin.create(config())) {
            admin.incrementalAlterConfigs(
                Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), List.of(earliest))).all().get();
        }
        return group;
    }

    static KafkaShareConsumer<byte[], byte[]> consumer(String group, String mode) {
        Map<String, Object> config = config();
        config.put("group.id", group);
        config.put("share.acknowledgement.mode", mode);
        return new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static KafkaProducer<byte[], byte[]> producer() {
        return new KafkaProducer<>(config(), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static void produce(String topic, int bytes, long records) {
        byte[] value = new byte[bytes];
        new Random(1).nextBytes(value);
        long began = System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (long number = 0; number < records; number++) {
                producer.send(new ProducerRecord<>(topic, value));
            }
            producer.flush();
        }
        System.out.printf("{\"rate\": %.0f}%n", records / seconds(began));
    }

    static double seconds(long began) {
        return (System.nanoTime() - began) / 1e9;
    }

    /** Once to warm the machine up, then once to be told. */
    static void consume(String topic, int consumers, long records) throws Exception {
        consumed(topic, consumers, Math.min(records, 200_000));
        System.out.printf("{\"rate\": %.0f}%n", consumed(topic, consumers, records));
    }

    static double consumed(String topic, int consumers, long records) throws Exception {
        String group = newGroup();
        AtomicLong count = new AtomicLong(), first = new AtomicLong(), last = new AtomicLong();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < consumers; number++) {
            Thread thread = new Thread(() -> {
                try (KafkaShareConsumer<byte[], byte[]> consumer = consumer(group, "implicit")) {
                    consumer.subscribe(List.of(topic));
                    while (count.get() < records) {
                        ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(200));
                        if (found.isEmpty()) continue;
                        long now = System.nanoTime();
                        first.compareAndSet(0, now);
                        if (count.addAndGet(found.count()) >= records) last.compareAndSet(0, now);
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) thread.join();
        return count.get() / ((last.get() - first.get()) / 1e9);
    }

    static void latency(String topic, int rate, int seconds) throws Exception {
        String group = newGroup();
        List<Long> delivered = Collections.synchronizedList(new ArrayList<>());
        List<Long> acknowledged = Collections.synchronizedList(new ArrayList<>());
        AtomicBoolean stop = new AtomicBoolean();
        Thread thread = new Thread(() -> {
            try (KafkaShareConsumer<byte[], byte[]> consumer = consumer(group, "explicit")) {
                consumer.subscribe(List.of(topic));
                while (!stop.get()) {
                    ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(100));
                    if (found.isEmpty()) continue;
                    long now = System.nanoTime();
                    for (ConsumerRecord<byte[], byte[]> record : found) {
                        delivered.add(now - ByteBuffer.wrap(record.value()).getLong());
                        consumer.acknowledge(record);
                    }
                    long asked = System.nanoTime();
                    consumer.commitSync();
                    acknowledged.add(System.nanoTime() - asked);
                }
            }
        });
        thread.start();
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            send(producer, topic, rate, 8);
            delivered.clear();
            acknowledged.clear();
            send(producer, topic, rate, seconds);
            Thread.sleep(1_000);
        }
        stop.set(true);
        thread.join();
        System.out.printf("{\"delivered\": %s, \"acknowledged\": %s}%n", ms(delivered), ms(acknowledged));
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String topic, int rate, int seconds) {
        long began = System.nanoTime();
        for (long number = 0; number < (long) rate * seconds; number++) {
            long due = began + number * 1_000_000_000L / rate;
            while (System.nanoTime() < due) LockSupport.parkNanos(due - System.nanoTime());
            byte[] value = ByteBuffer.allocate(100).putLong(System.nanoTime()).array();
            producer.send(new ProducerRecord<>(topic, value));
        }
    }

    static String ms(List<Long> times) {
        long[] sorted = times.stream().mapToLong(Long::longValue).sorted().toArray();
        return String.format(Locale.ROOT, "[%.2f, %.2f]",
            sorted[sorted.length / 2] / 1e6, sorted[(int) (sorted.length * .99)] / 1e6);
    }
}
