import java.io.FileWriter;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a share group with Kafka's own client; each journals what it sees, then acts.
 *
 * Arguments: bootstrap servers, group, topic, fields of a whole row, ms to hold what was polled,
 * directory of the journals, names of the members. They run until SIGTERM.
 */
public class FaultConsumer {
    static final int POLL_RECORDS = 50;
    static volatile boolean stopping;

    /** One line an event; times are CLOCK_MONOTONIC, as System.nanoTime() is on Linux. */
    static class Journal implements AutoCloseable {
        final PrintWriter file;
        final String who;

        Journal(String directory, String who) throws Exception {
            file = new PrintWriter(new FileWriter(directory + "/" + who + ".jsonl", true));
            this.who = who;
        }

        void write(String event, String fields) {
            file.print(String.format(Locale.ROOT, "{\"t\":%.3f,\"w\":\"%s\",\"e\":\"%s\"%s}\n", System.nanoTime() / 1e6, who, event, fields));
            file.flush();
        }

        void trouble(Throwable error) {
            write("trouble", ",\"text\":" + quoted(error));
        }

        void acknowledged(String partition, String kind, Collection<Long> offsets, Throwable error) {
            List<String> ranges = new ArrayList<>();
            Long first = null, last = null;
            for (Long offset : new TreeSet<>(offsets)) {
                if (last != null && offset != last + 1) {
                    ranges.add("[" + first + "," + last + "]");
                    first = null;
                }
                if (first == null) first = offset;
                last = offset;
            }
            ranges.add("[" + first + "," + last + "]");
            String said = error == null ? "null" : quoted(error);
            write("acknowledged", ",\"p\":\"" + partition + "\",\"k\":\"" + kind + "\",\"r\":[" + String.join(",", ranges) + "],\"error\":" + said);
        }

        static String quoted(Throwable error) {
            return "\"" + error.toString().replaceAll("[^\\w .:,@/()\\[\\]-]", " ") + "\"";
        }

        @Override
        public void close() {
            file.close();
        }
    }

    static class Member extends Thread {
        final String[] about;
        final Journal journal;
        final Map<String, Map<Long, AcknowledgeType>> sent = new HashMap<>();

        Member(String[] about, String name) throws Exception {
            super(name);
            this.about = about;
            journal = new Journal(about[5], name);
        }

        @Override
        public void run() {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", about[0]);
            settings.put("group.id", about[1]);
            settings.put("client.id", getName());
            settings.put("share.acknowledgement.mode", "explicit");
            settings.put("max.poll.records", POLL_RECORDS);
            try (var consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.setAcknowledgementCommitCallback((offsets, error) ->
                    offsets.forEach((where, told) -> this.told(where.topic() + "/" + where.partition(), told, error)));
                consumer.subscribe(List.of(about[2]));
                journal.write("started", "");
                for (int turn = 0; !stopping; turn++) {
                    try {
                        turn(consumer, turn);
                    } catch (Exception error) {
                        journal.trouble(error);
                    }
                }
            } catch (Exception error) {
                journal.trouble(error);
            }
            journal.write("stopped", "");
            journal.close();
        }

        void turn(KafkaShareConsumer<byte[], byte[]> consumer, int turn) throws Exception {
            Map<String, List<String>> seen = new TreeMap<>();
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            consumer.poll(Duration.ofMillis(500)).forEach(records::add);
            if (records.isEmpty()) return;
            for (var each : records)
                seen.computeIfAbsent(each.topic() + "/" + each.partition(), where -> new ArrayList<>())
                    .add("[" + each.offset() + "," + each.offset() + "," + each.deliveryCount().get() + "]");
            seen.forEach((where, ranges) ->
                journal.write("delivered", ",\"p\":\"" + where + "\",\"le\":-1,\"r\":[" + String.join(",", ranges) + "]"));
            Thread.sleep(Integer.parseInt(about[4]));
            for (var each : records) {
                int fields = 1;
                for (byte letter : each.value()) if (letter == ',') fields++;
                AcknowledgeType kind = fields == Integer.parseInt(about[3]) ? AcknowledgeType.ACCEPT : AcknowledgeType.REJECT;
                sent.computeIfAbsent(each.topic() + "/" + each.partition(), where -> new HashMap<>()).put(each.offset(), kind);
                consumer.acknowledge(each, kind);
            }
            if (turn % 3 == 0) consumer.commitSync();
            else if (turn % 3 == 1) consumer.commitAsync(); // else they ride on the next fetch
        }

        void told(String partition, Collection<Long> offsets, Throwable error) {
            for (AcknowledgeType kind : List.of(AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)) {
                List<Long> mine = new ArrayList<>();
                for (Long offset : offsets)
                    if (sent.getOrDefault(partition, Map.of()).get(offset) == kind) mine.add(offset);
                if (!mine.isEmpty()) journal.acknowledged(partition, kind.toString(), mine, error);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<Member> members = new ArrayList<>();
        for (int at = 6; at < arguments.length; at++) members.add(new Member(arguments, arguments[at]));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            for (Member each : members) {
                try {
                    each.join(10_000);
                } catch (InterruptedException error) {
                    return;
                }
            }
        }));
        for (Member each : members) each.start();
        for (Member each : members) each.join();
    }
}
