import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one process, which spares starting Java
 * for each: [{"tool": class, "words": [...], "stdin": text}] comes in, [{"code", "output"}] goes out.
 */
public class CommandLineTools {
    static final long PATIENCE_MS = 90_000;

    static class Ended extends RuntimeException {
        Ended() {
            super(null, null, false, false);
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        JsonNode commands = json.readTree(System.in);
        ArrayNode results = json.createArrayNode();
        PrintStream real = System.out;
        List<Runnable> hooks = new CopyOnWriteArrayList<>();
        Exit.setShutdownHookAdder((name, action) -> hooks.add(action));
        for (JsonNode each : commands) {
            ByteArrayOutputStream told = new ByteArrayOutputStream();
            PrintStream output = new PrintStream(told, true);
            System.setOut(output);
            System.setErr(output);
            System.setIn(new ByteArrayInputStream(each.get("stdin").asText().getBytes()));
            AtomicReference<ObjectNode> ended = new AtomicReference<>();
            Exit.setExitProcedure((status, message) -> {
                ended(ended, status, told);
                throw new Ended(); // some tools take it for a failure, and end again
            });
            List<String> words = new ArrayList<>();
            each.get("words").forEach(word -> words.add(word.asText()));
            hooks.clear();
            inTime(() -> run(each.get("tool").asText(), words, ended, told));
            for (Runnable hook : hooks) inTime(hook);
            if (ended.get() == null || ended.get().get("code").asInt() == 0) {
                int code = ended.get() == null ? -1 : 0;
                ended.set(null);
                ended(ended, code, told);
            }
            results.add(ended.get());
        }
        real.println(json.writeValueAsString(results));
        real.flush();
        Runtime.getRuntime().halt(0);
    }

    static void ended(AtomicReference<ObjectNode> ended, int code, ByteArrayOutputStream told) {
        ObjectNode result = new ObjectMapper().createObjectNode();
        result.put("code", code);
        result.put("output", told.toString());
        ended.compareAndSet(null, result);
    }

    static void inTime(Runnable action) throws InterruptedException {
        Thread thread = new Thread(() -> {
            try {
                action.run();
            } catch (Ended ended) {
                // it was a hook
            }
        });
        thread.setDaemon(true);
        thread.start();
        thread.join(PATIENCE_MS);
    }

    static void run(String tool, List<String> words, AtomicReference<ObjectNode> ended, ByteArrayOutputStream told) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) words.toArray(new String[0]));
            ended(ended, 0, told);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Ended)) error.getCause().printStackTrace();
            ended(ended, 1, told);
        } catch (ReflectiveOperationException error) {
            error.printStackTrace();
            ended(ended, 1, told);
        }
    }
}
