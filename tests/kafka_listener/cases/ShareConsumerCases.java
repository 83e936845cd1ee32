import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupMaxSizeReachedException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidRecordStateException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordDeserializationException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;

/**
 * What Kafka's own share consumer sees, case by case: against any broker, one line of JSON a case.
 *
 * Arguments: bootstrap servers of consumers, those of producers, how many cases at once, then
 * numbers of cases (none: all but OTHERS). Names and numbers are those of Kafka's ShareConsumerTest; the code is our own.
 */
public class ShareConsumerCases {
    static final int LOCK_MS = 15_000;
    static String bootstrap;
    static String producers;
    static Admin admin;
    static Admin topics;
    static final String RUN = Long.toString(System.nanoTime(), 36);

    interface Body {
        void run(Stage s) throws Exception;
    }

    record Case(int number, String name, Body body) {}

    static final Map<Integer, Case> CASES = new LinkedHashMap<>();

    /** They want other settings of the whole cluster, or a coordinator of transactions. */
    static final Set<Integer> OTHERS = Set.of(17, 62, 63, 64, 66, 67, 68);

    static void add(int number, String name, Body body) {
        CASES.put(number, new Case(number, name, body));
    }

    static class Failed extends RuntimeException {
        Failed(String message) {
            super(message);
        }
    }

    static void is(Object wanted, Object found, String what) {
        if (!wanted.equals(found)) throw new Failed(what + ": " + found + ", not " + wanted);
    }

    static void that(boolean holds, String what) {
        if (!holds) throw new Failed(what);
    }

    static <T extends Throwable> T fails(Class<T> kind, Callable<?> action, String what) throws Exception {
        try {
            action.call();
        } catch (Throwable thrown) {
            if (kind.isInstance(thrown)) return kind.cast(thrown);
            throw new Failed(what + ": " + thrown);
        }
        throw new Failed(what + ": nothing thrown");
    }

    static Callable<?> doing(Action action) {
        return () -> {
            action.run();
            return null;
        };
    }

    interface Action {
        void run() throws Exception;
    }

    interface Reading {
        void run(Stage s, KafkaShareConsumer<byte[], byte[]> c) throws Exception;
    }

    /** How most cases begin: a topic with records, a group that reads it from its start, a member of it. */
    static class Given {
        final int records;
        final boolean together;
        boolean explicit;
        String[] client = {};
        String[] group = {};

        Given(int records, boolean together) {
            this.records = records;
            this.together = together;
        }

        Given implicit(String... settings) {
            client = settings;
            return this;
        }

        Given explicit(String... settings) {
            explicit = true;
            return implicit(settings);
        }

        Given group(String... settings) {
            group = settings;
            return this;
        }

        KafkaShareConsumer<byte[], byte[]> member(Stage s) throws Exception {
            s.t = s.topic();
            if (together) s.batch(s.t, records);
            else s.produce(s.t, records);
            s.g = s.earliest(group);
            var c = explicit ? s.explicit(s.g, client) : s.consumer(s.g, client);
            c.subscribe(Set.of(s.t));
            return c;
        }
    }

    static Given records(int count) {
        return new Given(count, false);
    }

    /** All of them in one batch. */
    static Given batch(int count) {
        return new Given(count, true);
    }

    static void add(int number, String name, Given given, Reading reading) {
        add(number, name, s -> reading.run(s, given.member(s)));
    }

    /** Topics, groups and clients of one case; all clients are closed at its end. */
    static class Stage implements AutoCloseable {
        final String prefix;
        int made;
        String t;
        String g;
        final List<KafkaShareConsumer<byte[], byte[]>> consumers = new ArrayList<>();
        final KafkaProducer<byte[], byte[]> producer;

        Stage(int number) {
            prefix = "case" + number + "-" + RUN;
            producer = producer(Map.of());
        }

        String topic() throws Exception {
            return topic("t", 1);
        }

        String topic(String name, int partitions) throws Exception {
            String full = prefix + name;
            topics.createTopics(List.of(new NewTopic(full, partitions, (short) 1))).all().get();
            return full;
        }

        String group(String name, String... settings) throws Exception {
            String full = prefix + name;
            List<AlterConfigOp> changes = new ArrayList<>();
            for (int at = 0; at < settings.length; at += 2) changes.add(set(settings[at], settings[at + 1]));
            if (!changes.isEmpty())
                admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, full), changes)).all().get();
            return full;
        }

        String earliest(String... more) throws Exception {
            String[] all = new String[more.length + 2];
            all[0] = "share.auto.offset.reset";
            all[1] = "earliest";
            System.arraycopy(more, 0, all, 2, more.length);
            return group("g", all);
        }

        KafkaShareConsumer<byte[], byte[]> consumer(String group, String... more) {
            return consumer(group, new Bytes(), more);
        }

        KafkaShareConsumer<byte[], byte[]> consumer(String group, Deserializer<byte[]> values, String... more) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", group);
            for (int at = 0; at < more.length; at += 2) settings.put(more[at], more[at + 1]);
            KafkaShareConsumer<byte[], byte[]> made = new KafkaShareConsumer<>(settings, new Bytes(), values);
            consumers.add(made);
            return made;
        }

        KafkaShareConsumer<byte[], byte[]> explicit(String group, String... more) {
            String[] all = new String[more.length + 2];
            all[0] = "share.acknowledgement.mode";
            all[1] = "explicit";
            System.arraycopy(more, 0, all, 2, more.length);
            return consumer(group, all);
        }

        KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
            Map<String, Object> settings = new HashMap<>(more);
            settings.put("bootstrap.servers", producers);
            return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        }

        void produce(String topic, int count) throws Exception {
            List<Future<?>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++)
                sent.add(producer.send(new ProducerRecord<>(topic, 0, "key".getBytes(), ("value" + i).getBytes())));
            producer.flush();
            for (Future<?> each : sent) each.get();
        }

        /** One record in each of so many transactions; of them each such one is aborted. */
        void transactions(int count, int aborted) throws Exception {
            try (KafkaProducer<byte[], byte[]> own = producer(Map.of("transactional.id", prefix + "-" + made++))) {
                own.initTransactions();
                for (int i = 1; i <= count; i++) {
                    own.beginTransaction();
                    own.send(new ProducerRecord<>(t, 0, "key".getBytes(), ("transaction" + i).getBytes())).get();
                    if (i % aborted == 0) own.abortTransaction();
                    else own.commitTransaction();
                }
            }
        }

        /** Changes whether aborted records are read, and gives brokers time to hear of it. */
        void isolation(String level) throws Exception {
            group("g", "share.isolation.level", level);
            Thread.sleep(3_000);
        }

        /** One batch, however many records: they are sent by a producer that waits for more. */
        void batch(String topic, int count) throws Exception {
            try (KafkaProducer<byte[], byte[]> slow = producer(Map.of("linger.ms", 5_000, "batch.size", 16_000_000, "buffer.memory", 64_000_000L))) {
                for (int i = 0; i < count; i++)
                    slow.send(new ProducerRecord<>(topic, 0, "key".getBytes(), ("value" + i).getBytes()));
                slow.flush();
            }
        }

        @Override
        public void close() {
            producer.close();
            for (KafkaShareConsumer<byte[], byte[]> each : consumers) {
                try {
                    each.close(Duration.ofSeconds(5));
                } catch (RuntimeException error) {
                    // the case has closed it, or its callback throws
                }
            }
        }
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    static class Bytes implements Deserializer<byte[]> {
        @Override
        public byte[] deserialize(String topic, byte[] data) {
            return data;
        }
    }

    static List<ConsumerRecord<byte[], byte[]>> poll(KafkaShareConsumer<byte[], byte[]> consumer, long ms) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        consumer.poll(Duration.ofMillis(ms)).forEach(found::add);
        return found;
    }

    /** Polls until so many records came; not more, and within 15 s. */
    static List<ConsumerRecord<byte[], byte[]>> wait(KafkaShareConsumer<byte[], byte[]> consumer, int count) {
        return wait(consumer, count, 15_000, 2_000);
    }

    static List<ConsumerRecord<byte[], byte[]>> wait(KafkaShareConsumer<byte[], byte[]> consumer, int count, long within, long each) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        long end = System.currentTimeMillis() + within;
        while (found.size() < count && System.currentTimeMillis() < end) found.addAll(poll(consumer, each));
        is(count, found.size(), "records");
        return found;
    }

    /** Polls until one poll gives something, and returns that. */
    static List<ConsumerRecord<byte[], byte[]>> some(KafkaShareConsumer<byte[], byte[]> consumer) {
        long end = System.currentTimeMillis() + 20_000;
        while (System.currentTimeMillis() < end) {
            List<ConsumerRecord<byte[], byte[]>> found = poll(consumer, 1_000);
            if (!found.isEmpty()) return found;
        }
        throw new Failed("no records");
    }

    static void none(KafkaShareConsumer<byte[], byte[]> consumer, long ms) {
        is(0, poll(consumer, ms).size(), "records");
    }

    static void all(KafkaShareConsumer<byte[], byte[]> consumer, Collection<ConsumerRecord<byte[], byte[]>> records, AcknowledgeType type) {
        for (ConsumerRecord<byte[], byte[]> each : records) consumer.acknowledge(each, type);
    }

    static void committed(KafkaShareConsumer<byte[], byte[]> consumer, int partitions) {
        var result = consumer.commitSync();
        is(partitions, result.size(), "partitions of a commit");
        result.values().forEach(each -> that(each.isEmpty(), "a commit failed: " + each));
    }

    /** Hears what callbacks tell. */
    static class Heard {
        final TreeSet<Long> offsets = new TreeSet<>();
        int times;
        Exception error;

        static Heard of(KafkaShareConsumer<byte[], byte[]> consumer) {
            Heard heard = new Heard();
            consumer.setAcknowledgementCommitCallback((told, error) -> {
                told.values().forEach(heard.offsets::addAll);
                heard.times++;
                heard.error = error == null ? heard.error : error;
            });
            return heard;
        }
    }

    static void until(KafkaShareConsumer<byte[], byte[]> consumer, Callable<Boolean> condition, String what) throws Exception {
        long end = System.currentTimeMillis() + 15_000;
        while (!condition.call()) {
            that(System.currentTimeMillis() < end, what);
            consumer.poll(Duration.ofMillis(200));
        }
    }

    static SharePartitionOffsetInfo offsets(String group, String topic) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        ListShareGroupOffsetsSpec asked = new ListShareGroupOffsetsSpec().topicPartitions(List.of(partition));
        return admin.listShareGroupOffsets(Map.of(group, asked)).partitionsToOffsetInfo(group).get().get(partition);
    }

    static void lag(String group, String topic, long wanted) throws Exception {
        long end = System.currentTimeMillis() + 15_000;
        while (true) {
            SharePartitionOffsetInfo found = offsets(group, topic);
            if (found != null && found.lag().equals(java.util.Optional.of(wanted))) return;
            that(System.currentTimeMillis() < end, "lag " + (found == null ? null : found.lag()) + ", not " + wanted);
            Thread.sleep(200);
        }
    }

    static List<Long> numbers(Collection<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(ConsumerRecord::offset).toList();
    }

    static short count(ConsumerRecord<byte[], byte[]> record) {
        return record.deliveryCount().get();
    }

    static {
        add(1, "PollNoSubscribeFails", s -> {
            var c = s.consumer(s.earliest());
            that(c.subscription().isEmpty(), "a subscription");
            fails(IllegalStateException.class, () -> c.poll(Duration.ofMillis(500)), "poll");
        });
        add(2, "SubscribeAndPollNoRecords", records(0), (s, c) -> {
            none(c, 500);
            is(Set.of(s.t), c.subscription(), "subscription");
        });
        add(3, "SubscribePollUnsubscribe", records(0), (s, c) -> {
            none(c, 500);
            c.unsubscribe();
            that(c.subscription().isEmpty(), "subscription left");
        });
        add(4, "SubscribePollSubscribe", records(0), (s, c) -> {
            for (int i = 0; i < 2; i++) {
                c.subscribe(Set.of(s.t));
                none(c, 500);
                is(Set.of(s.t), c.subscription(), "subscription");
            }
        });
        add(6, "SubscribeSubscribeEmptyPollFails", records(0), (s, c) -> {
            none(c, 500);
            c.subscribe(Set.of());
            that(c.subscription().isEmpty(), "subscription left");
            fails(IllegalStateException.class, () -> c.poll(Duration.ofMillis(500)), "poll");
        });
        add(7, "SubscriptionAndPoll", records(1), (s, c) -> wait(c, 1));
        add(8, "SubscriptionAndPollMultiple", records(1), (s, c) -> {
            wait(c, 1);
            for (int i = 0; i < 2; i++) {
                s.produce(s.t, 1);
                is(1, poll(c, 5_000).size(), "records");
            }
        });
        add(9, "PollRecordsGreaterThanMaxBytes", records(1).implicit("fetch.max.bytes", "1"), (s, c) -> wait(c, 1));
        add(11, "AcknowledgementCommitCallbackSuccessfulAcknowledgement", records(1), (s, c) -> {
            Heard heard = Heard.of(c);
            wait(c, 1);
            until(c, () -> heard.times > 0, "no callback");
            is(Set.of(0L), heard.offsets, "offsets");
            that(heard.error == null, "callback told " + heard.error);
        });
        add(12, "AcknowledgementCommitCallbackOnClose", records(1), (s, c) -> {
            Heard heard = Heard.of(c);
            wait(c, 1);
            c.poll(Duration.ofMillis(1_000));
            c.close();
            is(Set.of(0L), heard.offsets, "offsets");
            that(heard.error == null, "callback told " + heard.error);
        });
        add(13, "AcknowledgementCommitCallbackInvalidRecordStateException", records(1), (s, c) -> {
            Heard heard = Heard.of(c);
            wait(c, 1);
            Thread.sleep(LOCK_MS + 5_000);
            until(c, () -> heard.error != null, "no error told");
            that(heard.error instanceof InvalidRecordStateException, "callback told " + heard.error);
        });
        add(14, "Headers", s -> {
            String t = s.topic();
            var record = new ProducerRecord<byte[], byte[]>(t, 0, null, "v".getBytes());
            for (int i = 0; i < 3; i++) record.headers().add("header" + i, ("value" + i).getBytes());
            s.producer.send(record).get();
            var c = s.consumer(s.earliest());
            c.subscribe(Set.of(t));
            int at = 0;
            for (var each : wait(c, 1).get(0).headers()) {
                is("header" + at, each.key(), "header");
                is("value" + at++, new String(each.value()), "value");
            }
            is(3, at, "headers");
        });
        add(16, "MaxPollRecords", s -> {
            String t = s.topic();
            long t0 = System.currentTimeMillis();
            for (int i = 0; i < 10_000; i++)
                s.producer.send(new ProducerRecord<>(t, 0, t0 + i, ("key " + i).getBytes(), ("value " + i).getBytes()));
            s.producer.flush();
            var c = s.consumer(s.earliest(), "max.poll.records", "2");
            c.subscribe(Set.of(t));
            int i = 0;
            for (var each : wait(c, 10_000, 60_000, 2_000)) {
                is((long) i, each.offset(), "offset");
                is(t0 + i, each.timestamp(), "timestamp");
                is(TimestampType.CREATE_TIME, each.timestampType(), "type");
                is("key " + i, new String(each.key()), "key");
                is("value " + i, new String(each.value()), "value");
                is(each.key().length, each.serializedKeySize(), "size");
                i++;
            }
        });
        add(17, "ControlRecordsSkipped", records(0), (s, c) -> {
            s.transactions(2, 2);
            s.produce(s.t, 2);
            is(List.of(0L, 2L, 4L, 5L), numbers(wait(c, 4)), "offsets");
            none(c, 500);
        });
        add(18, "ExplicitAcknowledgeSuccess", records(1).explicit(), (s, c) -> {
            all(c, wait(c, 1), AcknowledgeType.ACCEPT);
            s.produce(s.t, 1);
            is(1, poll(c, 5_000).size(), "records");
        });
        for (int number : new int[] {19, 32})
            add(number, number == 19 ? "ExplicitAcknowledgeCommitSuccess" : "ConfiguredExplicitAcknowledgeCommitSuccess", records(1).explicit(), (s, c) -> {
                all(c, wait(c, 1), AcknowledgeType.ACCEPT);
                s.produce(s.t, 1);
                committed(c, 1);
                is(1, poll(c, 5_000).size(), "records");
            });
        add(21, "ExplicitAcknowledgementCommitAsyncPartialBatch", batch(3).explicit(), (s, c) -> {
            Heard heard = Heard.of(c);
            var records = wait(c, 3);
            all(c, records.subList(0, 2), AcknowledgeType.ACCEPT);
            c.commitAsync();
            s.produce(s.t, 1);
            fails(IllegalStateException.class, () -> c.poll(Duration.ofMillis(5_000)), "poll");
            c.acknowledge(records.get(2));
            var fourth = some(c);
            is(3L, fourth.get(0).offset(), "offset");
            all(c, fourth, AcknowledgeType.ACCEPT);
            c.close();
            is(Set.of(0L, 1L, 2L, 3L), heard.offsets, "offsets");
        });
        add(22, "ExplicitAcknowledgeReleasePollAccept", records(1).explicit(), (s, c) -> {
            all(c, wait(c, 1), AcknowledgeType.RELEASE);
            all(c, wait(c, 1), AcknowledgeType.ACCEPT);
            none(c, 500);
        });
        add(23, "ExplicitAcknowledgeReleaseAccept", records(1).explicit(), (s, c) -> {
            var records = wait(c, 1);
            all(c, records, AcknowledgeType.RELEASE);
            all(c, records, AcknowledgeType.ACCEPT);
            none(c, 500);
        });
        add(24, "ExplicitAcknowledgeReleaseClose", records(1).explicit(), (s, c) -> {
            all(c, wait(c, 1), AcknowledgeType.RELEASE);
            c.close();
        });
        add(26, "ExplicitOverrideAcknowledgeCorruptedMessage", s -> {
            String t = s.topic();
            s.batch(t, 3);
            Deserializer<byte[]> strict = (topic, data) -> {
                if (new String(data).equals("value2")) throw new IllegalArgumentException("corrupted");
                return data;
            };
            var c = s.consumer(s.earliest(), strict, "share.acknowledgement.mode", "explicit");
            c.subscribe(Set.of(t));
            var records = wait(c, 2);
            all(c, records, AcknowledgeType.ACCEPT);
            var error = fails(RecordDeserializationException.class, () -> c.poll(Duration.ofMillis(5_000)), "poll");
            is(2L, error.offset(), "offset");
            c.commitSync();
            error = fails(RecordDeserializationException.class, () -> some(c), "poll");
            is(2L, error.offset(), "offset");
            c.acknowledge(error.topicPartition().topic(), error.topicPartition().partition(), error.offset(), AcknowledgeType.REJECT);
            c.commitSync();
            none(c, 500);
        });
        add(27, "ExplicitAcknowledgeOffsetThrowsNotException", records(1).explicit(), (s, c) -> {
            var records = wait(c, 1);
            fails(IllegalStateException.class, doing(() -> c.acknowledge(s.t, 0, records.get(0).offset(), AcknowledgeType.ACCEPT)), "acknowledge");
            all(c, records, AcknowledgeType.ACCEPT);
        });
        add(28, "ExplicitAcknowledgeOffsetThrowsParametersError", s -> {
            String t = s.topic();
            s.produce(t, 1);
            Deserializer<byte[]> strict = (topic, data) -> {
                throw new IllegalArgumentException("corrupted");
            };
            var c = s.consumer(s.earliest(), strict, "share.acknowledgement.mode", "explicit");
            c.subscribe(Set.of(t));
            var error = fails(RecordDeserializationException.class, () -> some(c), "poll");
            fails(IllegalStateException.class, doing(() -> c.acknowledge("foo", 0, error.offset(), AcknowledgeType.REJECT)), "topic");
            fails(IllegalStateException.class, doing(() -> c.acknowledge(t, 9, error.offset(), AcknowledgeType.REJECT)), "partition");
            fails(IllegalStateException.class, doing(() -> c.acknowledge(t, 0, error.offset() + 1, AcknowledgeType.REJECT)), "offset");
            c.acknowledge(t, 0, error.offset(), AcknowledgeType.REJECT);
            fails(IllegalStateException.class, doing(() -> c.acknowledge(t, 0, error.offset() + 1, AcknowledgeType.REJECT)), "twice");
        });
        add(29, "ImplicitAcknowledgeFailsExplicit", records(1), (s, c) -> {
            var records = wait(c, 1);
            none(c, 500);
            fails(IllegalStateException.class, doing(() -> c.acknowledge(records.get(0))), "acknowledge");
        });
        add(33, "ConfiguredImplicitAcknowledgeExplicitAcknowledgeFails", records(1).implicit("share.acknowledgement.mode", "implicit"), (s, c) -> {
            var records = wait(c, 1);
            fails(IllegalStateException.class, doing(() -> c.acknowledge(records.get(0))), "acknowledge");
        });
        add(31, "ImplicitAcknowledgementCommitAsync", batch(3), (s, c) -> {
            Heard heard = Heard.of(c);
            wait(c, 3);
            c.commitAsync();
            until(c, () -> heard.offsets.size() == 3, "callback told " + heard.offsets);
            that(heard.error == null, "callback told " + heard.error);
        });
        add(34, "FetchRecordLargerThanMaxPartitionFetchBytes", s -> {
            String t = s.topic();
            s.produce(t, 1);
            s.producer.send(new ProducerRecord<>(t, 0, "key".getBytes(), new byte[10_000])).get();
            var c = s.consumer(s.earliest(), "max.partition.fetch.bytes", "10000");
            c.subscribe(Set.of(t));
            wait(c, 2);
        });
        add(36, "MultipleConsumersInGroupSequentialConsumption", s -> {
            String t = s.topic();
            var one = s.consumer(s.earliest());
            var two = s.consumer(s.prefix + "g");
            one.subscribe(Set.of(t));
            two.subscribe(Set.of(t));
            s.produce(t, 2_000);
            int sum = 0;
            for (int turn = 0; turn < 60 && sum < 2_000; turn++) sum += poll(one, 500).size() + poll(two, 500).size();
            sum += poll(one, 500).size() + poll(two, 500).size();
            is(2_000, sum, "records");
        });
        add(37, "MultipleConsumersInGroupConcurrentConsumption", s -> {
            String t = s.topic();
            ExecutorService threads = Executors.newFixedThreadPool(8);
            try {
                List<Future<?>> producers = new ArrayList<>();
                String g = s.earliest();
                for (int i = 0; i < 4; i++) producers.add(threads.submit(doing(() -> s.produce(t, 5_000))));
                is(20_000, crowd(s, threads, g, t, 4, 20_000, 60_000), "records");
                for (Future<?> each : producers) each.get();
            } finally {
                threads.shutdownNow();
            }
        });
        add(38, "MultipleConsumersInMultipleGroupsConcurrentConsumption", s -> {
            String t = s.topic();
            ExecutorService threads = Executors.newFixedThreadPool(16);
            try {
                List<Future<Integer>> groups = new ArrayList<>();
                for (int i = 0; i < 3; i++) {
                    String g = s.group("g" + i, "share.auto.offset.reset", "earliest");
                    groups.add(threads.submit(() -> crowd(s, threads, g, t, 2, 8_000, 120_000)));
                }
                for (int i = 0; i < 4; i++) threads.submit(doing(() -> s.produce(t, 2_000)));
                for (Future<Integer> each : groups) is(8_000, each.get(), "records of a group");
            } finally {
                threads.shutdownNow();
            }
        });
        add(39, "ConsumerCloseInGroupSequential", s -> {
            String t = s.topic();
            var one = s.consumer(s.earliest());
            var two = s.consumer(s.prefix + "g");
            one.subscribe(Set.of(t));
            two.subscribe(Set.of(t));
            s.produce(t, 1_500);
            int sum = 0, last = 0;
            for (int turn = 0; turn < 60 && sum < 1_500; turn++) {
                last = poll(one, 1_000).size();
                sum += last;
            }
            one.close();
            int rest = 0;
            for (int turn = 0; turn < 10; turn++) rest += poll(two, 500).size();
            that(sum + rest >= 1_500 && sum + rest <= 1_500 + last, "records " + sum + " and " + rest);
        });
        add(41, "AcquisitionLockTimeoutOnConsumer", records(0), (s, c) -> {
            s.produce(s.t, 1);
            wait(c, 1);
            s.produce(s.t, 1);
            is(1L, some(c).get(0).offset(), "offset");
            Thread.sleep(LOCK_MS + 5_000);
            is(1L, some(c).get(0).offset(), "offset again");
            none(c, 500);
        });
        add(42, "AcknowledgementCommitCallbackCallsShareConsumerDisallowed", records(1), (s, c) -> {
            AtomicInteger refused = new AtomicInteger();
            AtomicBoolean called = new AtomicBoolean();
            c.setAcknowledgementCommitCallback((told, error) -> {
                called.set(true);
                List<Runnable> tried = List.of(c::close, () -> c.subscribe(Set.of(s.t)), () -> c.poll(Duration.ofMillis(10)));
                for (Runnable each : tried) {
                    try {
                        each.run();
                    } catch (IllegalStateException expected) {
                        refused.incrementAndGet();
                    }
                }
            });
            wait(c, 1);
            until(c, called::get, "no callback");
            is(3, refused.get(), "refused calls");
        });
        add(43, "AcknowledgementCommitCallbackCallsShareConsumerWakeup", records(1), (s, c) -> {
            AtomicBoolean called = new AtomicBoolean();
            c.setAcknowledgementCommitCallback((told, error) -> {
                if (called.compareAndSet(false, true)) c.wakeup();
            });
            wait(c, 1);
            fails(WakeupException.class, doing(() -> until(c, () -> false, "no wakeup")), "poll");
        });
        add(44, "AcknowledgementCommitCallbackThrowsException", records(1), (s, c) -> {
            c.setAcknowledgementCommitCallback((told, error) -> {
                throw new org.apache.kafka.common.errors.OutOfOrderSequenceException("mine");
            });
            wait(c, 1);
            fails(org.apache.kafka.common.errors.OutOfOrderSequenceException.class, doing(() -> until(c, () -> false, "nothing")), "poll");
        });
        add(46, "SubscribeOnInvalidTopicThrowsInvalidTopicException", s -> {
            var c = s.consumer(s.earliest());
            c.subscribe(Set.of("topic abc"));
            fails(InvalidTopicException.class, doing(() -> until(c, () -> false, "nothing")), "poll");
        });
        add(47, "WakeupWithFetchedRecordsAvailable", records(1), (s, c) -> {
            c.wakeup();
            fails(WakeupException.class, () -> c.poll(Duration.ofSeconds(3)), "poll");
            wait(c, 1);
        });
        add(48, "SubscriptionFollowedByTopicCreation", s -> {
            var c = s.consumer(s.earliest());
            c.subscribe(Set.of(s.prefix + "later"));
            none(c, 500);
            String t = s.topic("later", 1);
            s.produce(t, 1);
            wait(c, 1);
            s.produce(t, 1);
            wait(c, 1);
            s.produce(t, 1);
            wait(c, 1);
        });
        add(49, "SubscriptionAndPollFollowedByTopicDeletion", s -> {
            String bar = s.topic("bar", 1), baz = s.topic("baz", 1);
            var c = s.consumer(s.earliest());
            c.subscribe(Set.of(bar, baz));
            s.produce(bar, 1);
            wait(c, 1);
            admin.deleteTopics(List.of(bar)).all().get();
            none(c, 500);
            s.produce(baz, 1);
            wait(c, 1);
            s.produce(baz, 1);
            wait(c, 1);
        });
        add(51, "ShareAutoOffsetResetDefaultValue", s -> {
            String t = s.topic();
            s.produce(t, 1);
            var c = s.consumer(s.group("g"));
            c.subscribe(Set.of(t));
            long end = System.currentTimeMillis() + 10_000;
            while (System.currentTimeMillis() < end && offsetsOrNull(s.prefix + "g", t) == null) none(c, 500);
            s.produce(t, 1);
            is(1L, wait(c, 1).get(0).offset(), "offset");
        });
        add(52, "ShareAutoOffsetResetEarliest", records(1), (s, c) -> {
            wait(c, 1);
            s.produce(s.t, 1);
            wait(c, 1);
        });
        add(53, "ShareAutoOffsetResetEarliestAfterLsoMovement", s -> {
            String t = s.topic();
            s.produce(t, 10);
            admin.deleteRecords(Map.of(new TopicPartition(t, 0), RecordsToDelete.beforeOffset(5))).all().get();
            var c = s.consumer(s.earliest());
            c.subscribe(Set.of(t));
            is(5L, wait(c, 5).get(0).offset(), "offset");
        });
        add(54, "ShareAutoOffsetResetMultipleGroupsWithDifferentValue", s -> {
            String t = s.topic();
            s.produce(t, 1);
            var one = s.consumer(s.group("one", "share.auto.offset.reset", "earliest"));
            var two = s.consumer(s.group("two", "share.auto.offset.reset", "latest"));
            one.subscribe(Set.of(t));
            two.subscribe(Set.of(t));
            wait(one, 1);
            long end = System.currentTimeMillis() + 10_000;
            while (System.currentTimeMillis() < end && offsetsOrNull(s.prefix + "two", t) == null) none(two, 500);
            s.produce(t, 1);
            wait(one, 1);
            wait(two, 1);
        });
        add(55, "ShareAutoOffsetResetByDuration", s -> {
            String t = s.topic();
            long hours = 3_600_000L;
            s.producer.send(new ProducerRecord<>(t, 0, System.currentTimeMillis() - 2 * hours, null, "old".getBytes())).get();
            s.produce(t, 1);
            var c = s.consumer(s.group("g", "share.auto.offset.reset", "by_duration:PT1H"));
            c.subscribe(Set.of(t));
            is(1L, wait(c, 1).get(0).offset(), "offset");
            var all = s.consumer(s.group("all", "share.auto.offset.reset", "by_duration:PT3H"));
            all.subscribe(Set.of(t));
            wait(all, 2);
        });
        add(56, "ShareAutoOffsetResetByDurationInvalidFormat", s -> {
            for (String wrong : List.of("by_duration:1h", "by_duration:-PT1H")) {
                var error = fails(ExecutionException.class, () -> s.group("g", "share.auto.offset.reset", wrong), wrong);
                that(error.getCause() instanceof InvalidConfigurationException, wrong + ": " + error.getCause());
            }
        });
        add(58, "DeliveryCountNotIncreaseAfterSessionClose", s -> {
            String t = s.topic();
            s.produce(t, 10);
            String g = s.earliest();
            for (int i = 0; i < 5; i++) {
                var c = s.consumer(g);
                c.subscribe(Set.of(t));
                wait(c, 10);
                c.unsubscribe();
                c.close();
            }
            var c = s.explicit(g);
            c.subscribe(Set.of(t));
            wait(c, 10);
        });
        add(59, "DeliveryCountDifferentBehaviorWhenClosingSessionWithExplicitAcknowledgement", s -> {
            String t = s.topic();
            s.batch(t, 2);
            String g = s.earliest();
            var one = s.explicit(g);
            one.subscribe(Set.of(t));
            one.acknowledge(wait(one, 2).get(0), AcknowledgeType.RELEASE);
            committed(one, 1);
            one.close();
            var two = s.explicit(g);
            two.subscribe(Set.of(t));
            TreeMap<Long, Short> counts = new TreeMap<>();
            for (var each : wait(two, 2)) counts.put(each.offset(), count(each));
            is(Map.of(0L, (short) 2, 1L, (short) 1), counts, "delivery counts");
        });
        add(61, "ComplexShareConsumer", s -> {
            String t = s.topic();
            AtomicBoolean produced = new AtomicBoolean();
            AtomicInteger sent = new AtomicInteger();
            Thread producing = new Thread(() -> {
                long end = System.currentTimeMillis() + 8_000;
                try {
                    while (System.currentTimeMillis() < end) {
                        s.produce(t, 50);
                        sent.addAndGet(50);
                        Thread.sleep(20);
                    }
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
                produced.set(true);
            });
            producing.start();
            var c = s.explicit(s.earliest());
            c.subscribe(Set.of(t));
            int read = 0;
            long end = System.currentTimeMillis() + 45_000;
            int quiet = 0;
            while (quiet < 6) {
                that(System.currentTimeMillis() < end, "not read after 45 s: " + read + " of " + sent);
                var records = poll(c, 500);
                quiet = records.isEmpty() && produced.get() ? quiet + 1 : 0;
                read += records.size();
                for (var each : records) {
                    long kind = each.offset() % 4;
                    AcknowledgeType type = AcknowledgeType.RELEASE;
                    if (kind == 3) type = AcknowledgeType.REJECT;
                    else if (count(each) >= kind + 2) type = AcknowledgeType.ACCEPT;
                    c.acknowledge(each, type);
                }
            }
            double wanted = sent.get() * (1 + 2 + 3 + 4) / 4.0;
            that(read >= 0.95 * wanted && read <= 1.05 * wanted, "read " + read + ", not " + wanted);
        });
        add(62, "ShareGroupMaxSizeConfigExceeded", s -> {
            String t = s.topic();
            s.produce(t, 1);
            String g = s.earliest();
            for (int i = 0; i < 3; i++) {
                var c = s.consumer(g);
                c.subscribe(Set.of(t));
                until(c, () -> c.acquisitionLockTimeoutMs().isPresent(), "member " + c);
            }
            var fourth = s.consumer(g);
            fourth.subscribe(Set.of(t));
            fails(GroupMaxSizeReachedException.class, doing(() -> until(fourth, () -> false, "nothing")), "poll");
            is(3, admin.describeShareGroups(List.of(g)).all().get().get(g).members().size(), "members");
        });
        add(63, "ShareGroupShareSessionCacheIsFull", s -> {
            String t = s.topic();
            s.produce(t, 1);
            var one = s.consumer(s.earliest());
            one.subscribe(Set.of(t));
            wait(one, 1);
            var two = s.consumer(s.group("two", "share.auto.offset.reset", "earliest"));
            two.subscribe(Set.of(t));
            for (int i = 0; i < 6; i++) none(two, 1_000);
        });
        add(64, "ReadCommittedIsolationLevel", records(0).group("share.isolation.level", "read_committed"), (s, c) -> {
            s.transactions(10, 5);
            is(List.of(0L, 2L, 4L, 6L, 10L, 12L, 14L, 16L), numbers(wait(c, 8)), "offsets");
            none(c, 500);
        });
        add(66, "AlterReadUncommittedToReadCommittedIsolationLevel", records(0).group("share.isolation.level", "read_uncommitted").explicit(), (s, c) -> {
            s.transactions(2, 2);
            var records = wait(c, 2);
            s.isolation("read_committed");
            c.acknowledge(records.get(0), AcknowledgeType.ACCEPT);
            c.acknowledge(records.get(1), AcknowledgeType.RELEASE);
            committed(c, 1);
            s.transactions(1, 2);
            var fresh = some(c);
            is(List.of(4L), numbers(fresh), "offsets: the released one was aborted");
            all(c, fresh, AcknowledgeType.ACCEPT);
            none(c, 2_000);
        });
        for (int number : new int[] {67, 68}) {
            boolean again = number == 67;
            AcknowledgeType type = again ? AcknowledgeType.RELEASE : AcknowledgeType.REJECT;
            String name = "AlterReadCommittedToReadUncommittedIsolationLevelWith" + (again ? "Release" : "Reject") + "Ack";
            add(number, name, records(0).group("share.isolation.level", "read_committed").explicit(), (s, c) -> {
                s.transactions(3, 2);
                var records = wait(c, 2);
                is(List.of(0L, 4L), numbers(records), "offsets");
                s.isolation("read_uncommitted");
                c.acknowledge(records.get(0), type);
                c.acknowledge(records.get(1), AcknowledgeType.ACCEPT);
                committed(c, 1);
                s.transactions(1, 1);
                Set<Long> found = new TreeSet<>();
                Set<Long> wanted = again ? Set.of(0L, 6L) : Set.of(6L);
                long end = System.currentTimeMillis() + 15_000;
                while (!found.equals(wanted)) {
                    that(System.currentTimeMillis() < end, "offsets " + found + ", not " + wanted);
                    var fresh = poll(c, 500);
                    all(c, fresh, AcknowledgeType.ACCEPT);
                    found.addAll(numbers(fresh));
                }
                none(c, 2_000);
            });
        }
        add(69, "PollInBatchOptimizedMode", batch(10).implicit("max.poll.records", "5", "share.acquire.mode", "batch_optimized"), (s, c) -> is(10, some(c).size(), "records"));
        add(71, "PollAndExplicitAcknowledgeSingleMessageInRecordLimitMode", batch(10).explicit("max.poll.records", "1", "share.acquire.mode", "record_limit"), (s, c) -> {
            for (int i = 0; i < 10; i++) {
                var records = some(c);
                is(1, records.size(), "records");
                is((long) i, records.get(0).offset(), "offset");
                all(c, records, AcknowledgeType.ACCEPT);
                committed(c, 1);
            }
        });
        add(72, "ExplicitAcknowledgeSuccessInRecordLimitMode", batch(15).explicit("max.poll.records", "10", "share.acquire.mode", "record_limit"), (s, c) -> {
            for (int wanted : new int[] {10, 5}) {
                var records = some(c);
                is(wanted, records.size(), "records");
                all(c, records, AcknowledgeType.ACCEPT);
            }
        });
        add(73, "ExplicitAcknowledgeReleaseAcceptInRecordLimitMode", batch(20).explicit("max.poll.records", "10", "share.acquire.mode", "record_limit"), (s, c) -> {
            var records = some(c);
            is(10, records.size(), "records");
            for (int i = 0; i < 10; i++) {
                c.acknowledge(records.get(i), i % 2 == 0 ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
                committed(c, 1);
            }
            for (int wanted : new int[] {10, 5}) {
                records = some(c);
                is(wanted, records.size(), "records");
                all(c, records, AcknowledgeType.ACCEPT);
                committed(c, 1);
            }
        });
        add(74, "RenewAcknowledgementOnPoll", batch(10).explicit(), (s, c) -> {
            AtomicInteger told = new AtomicInteger();
            c.setAcknowledgementCommitCallback((offsets, error) -> offsets.values().forEach(each -> told.addAndGet(each.size())));
            for (var each : wait(c, 10))
                c.acknowledge(each, each.offset() % 2 == 0 ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW);
            var renewed = some(c);
            is(5, renewed.size(), "renewed");
            renewed.forEach(each -> is(1L, each.offset() % 2, "offset"));
            all(c, renewed, AcknowledgeType.ACCEPT);
            until(c, () -> told.get() == 15, "acknowledgements told: " + told);
        });
        add(76, "RenewAcknowledgementInvalidStateRecord", records(1).explicit(), (s, c) -> {
            var records = wait(c, 1);
            all(c, records, AcknowledgeType.REJECT);
            committed(c, 1);
            fails(IllegalStateException.class, doing(() -> c.acknowledge(records.get(0), AcknowledgeType.RENEW)), "acknowledge");
        });
        add(77, "RenewAcknowledgementNoResultInPoll", batch(10).explicit("max.poll.records", "10"), (s, c) -> {
            for (var each : wait(c, 10))
                c.acknowledge(each, each.offset() % 2 == 0 ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW);
            s.batch(s.t, 5);
            var renewed = some(c);
            is(5, renewed.size(), "renewed");
            renewed.forEach(each -> that(each.offset() < 10, "a new record: " + each.offset()));
            all(c, renewed, AcknowledgeType.ACCEPT);
            var fresh = some(c);
            is(5, fresh.size(), "new");
            fresh.forEach(each -> that(each.offset() >= 10, "an old record: " + each.offset()));
            all(c, fresh, AcknowledgeType.ACCEPT);
        });
        add(78, "DescribeShareGroupOffsetsForEmptySharePartition", records(0), (s, c) -> {
            for (int i = 0; i < 4; i++) none(c, 500);
            that(offsetsOrNull(s.g, s.t) == null || offsets(s.g, s.t).startOffset() == 0, "an offset");
        });
        add(79, "SharePartitionLagForSingleShareConsumer", records(1).explicit(), (s, c) -> {
            all(c, wait(c, 1), AcknowledgeType.ACCEPT);
            committed(c, 1);
            lag(s.g, s.t, 0);
            s.produce(s.t, 1);
            lag(s.g, s.t, 1);
        });
        add(81, "SharePartitionLagWithReleaseAcknowledgement", records(1).explicit(), (s, c) -> {
            all(c, wait(c, 1), AcknowledgeType.RELEASE);
            committed(c, 1);
            lag(s.g, s.t, 1);
            all(c, wait(c, 1), AcknowledgeType.ACCEPT);
            committed(c, 1);
            lag(s.g, s.t, 0);
        });
        add(82, "SharePartitionLagWithRejectAcknowledgement", records(1).explicit(), (s, c) -> {
            all(c, wait(c, 1), AcknowledgeType.REJECT);
            committed(c, 1);
            lag(s.g, s.t, 0);
        });
        add(86, "FetchWithThrottledDeliveryBatchesWithIncreasedDeliveryLimit", batch(512).group("share.delivery.count.limit", "10").explicit("max.poll.records", "512"), (s, c) -> {
            List<Integer> sizes = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                var records = some(c);
                sizes.add(records.size());
                all(c, records, AcknowledgeType.RELEASE);
                committed(c, 1);
            }
            is(List.of(512, 512, 512, 512, 512, 256, 128, 64, 32, 1), sizes, "sizes of deliveries");
        });
        add(87, "FetchWithThrottledDeliveryValidateDeliveryCount", batch(500).group("share.delivery.count.limit", "10").explicit("max.poll.records", "500"), (s, c) -> {
            Map<Long, Integer> times = new TreeMap<>();
            List<Integer> sizes = new ArrayList<>();
            long end = System.currentTimeMillis() + 120_000;
            int sum = 0;
            while (sum < 5_000) {
                that(System.currentTimeMillis() < end, "deliveries after 120 s: " + sum);
                var records = poll(c, 1_000);
                if (records.isEmpty()) continue;
                sizes.add(records.size());
                sum += records.size();
                for (var each : records) {
                    is(times.merge(each.offset(), 1, Integer::sum), (int) count(each), "delivery count of " + each.offset());
                    c.acknowledge(each, AcknowledgeType.RELEASE);
                }
                committed(c, 1);
            }
            is(List.of(500, 500, 500, 500, 500, 250, 125, 62, 31, 1), sizes.subList(0, 10), "sizes of deliveries");
            times.forEach((offset, number) -> is(10, number, "deliveries of " + offset));
            is(500, times.size(), "offsets");
            none(c, 1_000);
        });
        add(88, "FetchWithThrottledDeliveryBatchesWithDecreasedDeliveryLimit", batch(512).group("share.delivery.count.limit", "2").explicit("max.poll.records", "512"), (s, c) -> {
            for (int i = 0; i < 2; i++) {
                var records = some(c);
                is(512, records.size(), "records");
                all(c, records, AcknowledgeType.RELEASE);
            }
            none(c, 1_000);
        });
        add(89, "FetchWithThrottledDeliveryBatchesMultipleConsumers", s -> {
            String t = s.topic();
            String g = s.earliest("share.delivery.count.limit", "3");
            s.produce(t, 1);
            s.produce(t, 1);
            var one = s.explicit(g, "max.poll.records", "2");
            one.subscribe(Set.of(t));
            for (int i = 0; i < 2; i++) all(one, wait(one, 2), AcknowledgeType.RELEASE);
            committed(one, 1);
            var last = some(one);
            is(1, last.size(), "records");
            is(0L, last.get(0).offset(), "offset");
            all(one, last, AcknowledgeType.ACCEPT);
            last = some(one);
            is(1, last.size(), "records");
            is(1L, last.get(0).offset(), "offset");
            all(one, last, AcknowledgeType.ACCEPT);
        });
    }

    static SharePartitionOffsetInfo offsetsOrNull(String group, String topic) throws Exception {
        try {
            SharePartitionOffsetInfo found = offsets(group, topic);
            return found == null || found.startOffset() < 0 ? null : found;
        } catch (ExecutionException error) {
            return null;
        }
    }

    /** Reads with several members at once, and returns how many records they got. */
    static int crowd(Stage s, ExecutorService threads, String group, String topic, int members, int wanted, long within) throws Exception {
        AtomicInteger sum = new AtomicInteger();
        List<Future<?>> readers = new ArrayList<>();
        long end = System.currentTimeMillis() + within;
        List<KafkaShareConsumer<byte[], byte[]>> consumers = new ArrayList<>();
        for (int i = 0; i < members; i++) {
            synchronized (s) {
                consumers.add(s.consumer(group, "max.partition.fetch.bytes", "100000"));
            }
        }
        for (var c : consumers)
            readers.add(threads.submit(doing(() -> {
                c.subscribe(Set.of(topic));
                while (sum.get() < wanted && System.currentTimeMillis() < end) sum.addAndGet(poll(c, 1_000).size());
                c.commitSync();
                c.close();
            })));
        for (Future<?> each : readers) each.get();
        return sum.get();
    }

    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "'").replaceAll("\\s+", " ") + "\"";
    }

    static void run(Case each) {
        long began = System.currentTimeMillis();
        String why = "";
        try (Stage stage = new Stage(each.number())) {
            each.body().run(stage);
        } catch (Throwable thrown) {
            why = thrown instanceof Failed ? thrown.getMessage() : thrown.toString();
            if (why == null || why.isEmpty()) why = thrown.getClass().getName();
        }
        long took = System.currentTimeMillis() - began;
        synchronized (CASES) {
            System.out.printf("{\"case\": %d, \"name\": %s, \"why\": %s, \"ms\": %d}%n", each.number(), quoted(each.name()), quoted(why), took);
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        producers = arguments[1];
        ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(arguments[2]));
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        topics = Admin.create(Map.of("bootstrap.servers", producers));
        Set<Integer> wanted = new TreeSet<>();
        for (int at = 3; at < arguments.length; at++) wanted.add(Integer.parseInt(arguments[at]));
        if (wanted.isEmpty()) {
            wanted.addAll(CASES.keySet());
            wanted.removeAll(OTHERS);
        }
        List<Future<?>> running = new ArrayList<>();
        for (int number : wanted) running.add(threads.submit(() -> run(CASES.get(number))));
        for (Future<?> each : running) each.get();
        threads.shutdown();
        admin.close(Duration.ofSeconds(5));
        topics.close(Duration.ofSeconds(5));
        System.exit(0);
    }
}
