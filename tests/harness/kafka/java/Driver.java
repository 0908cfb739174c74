import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's Java client and tools behind one pipe: a JSON command per line in, a JSON answer per line
 * out. One JVM serves a whole test session, so that a test does not pay for its start.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration CLOSE = Duration.ofSeconds(5);
    private final Map<String, Producer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<String, Consumer<byte[], byte[]>> consumers = new HashMap<>();

    /** How a tool's System.exit arrives here instead of ending the JVM. */
    private static final class Exited extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Exited() {
            super(null, null, false, false);
        }
    }

    /** The first status counts: some tools catch everything, our Exited too, and exit once more. */
    private static Integer exitStatus;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Exit.Procedure leave = (status, message) -> {
            exitStatus = exitStatus == null ? Integer.valueOf(status) : exitStatus;
            throw new Exited();
        };
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        Exit.setShutdownHookAdder((name, hook) -> { });
        Driver driver = new Driver();
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(JSON.writeValueAsString(driver.answer(JSON.readTree(line))));
            answers.flush();
        }
        // Open clients hold threads; the test that opened them is gone.
        Runtime.getRuntime().halt(0);
    }

    private ObjectNode answer(JsonNode command) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            execute(command, answer);
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            answer.put("error", cause.getClass().getSimpleName());
            answer.put("message", String.valueOf(cause.getMessage()));
        }
        return answer;
    }

    private void execute(JsonNode command, ObjectNode answer) throws Exception {
        String name = command.path("name").asText();
        switch (command.get("op").asText()) {
            case "tool" -> tool(command, answer);
            case "producer" -> producers.put(name, new KafkaProducer<>(
                properties(command), new ByteArraySerializer(), new ByteArraySerializer()));
            case "init" -> producers.get(name).initTransactions();
            case "begin" -> producers.get(name).beginTransaction();
            case "commit" -> producers.get(name).commitTransaction();
            case "abort" -> producers.get(name).abortTransaction();
            case "send" -> send(command, producers.get(name), answer);
            case "send-offsets" -> producers.get(name).sendOffsetsToTransaction(
                offsets(command), consumers.get(command.get("consumer").asText()).groupMetadata());
            case "close-producer" -> producers.remove(name).close(CLOSE);
            case "consumer" -> consumer(command, name);
            case "poll" -> poll(command, consumers.get(name), answer);
            case "commit-offsets" -> consumers.get(name).commitSync(offsets(command));
            case "close-consumer" -> closeConsumer(name);
            default -> throw new IllegalArgumentException("unknown op " + command.get("op"));
        }
    }

    private void tool(JsonNode command, ObjectNode answer) throws Exception {
        List<String> arguments = new ArrayList<>();
        command.get("args").forEach(argument -> arguments.add(argument.asText()));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream oldOut = System.out;
        PrintStream oldErr = System.err;
        exitStatus = null;
        try {
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            Class<?> tool = Class.forName(command.get("class").asText());
            tool.getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Exited)) {
                exitStatus = 1;
                error.getCause().printStackTrace(System.err);
            }
        } finally {
            System.out.flush();
            System.setOut(oldOut);
            System.setErr(oldErr);
            closeAdmins();
        }
        answer.put("status", exitStatus == null ? 0 : exitStatus);
        answer.put("stdout", out.toString(StandardCharsets.UTF_8));
        answer.put("stderr", err.toString(StandardCharsets.UTF_8));
    }

    /**
     * Closes the admin clients that a tool has left open because its exit ends them. Here they would
     * send requests until the end of the session.
     */
    private static void closeAdmins() throws ReflectiveOperationException {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().startsWith("kafka-admin-client-thread")) {
                Object work = work(thread);
                if (work != null) {
                    ((Admin) field(work.getClass(), "this$0").get(work)).close(Duration.ZERO);
                }
            }
        }
    }

    /** Returns what a thread runs, or null if the thread has ended. */
    private static Object work(Thread thread) throws ReflectiveOperationException {
        if (Runtime.version().feature() < 19) {
            return field(Thread.class, "target").get(thread);
        }
        Object holder = field(Thread.class, "holder").get(thread);
        return field(holder.getClass(), "task").get(holder);
    }

    private static Field field(Class<?> type, String name) throws NoSuchFieldException {
        Field found = type.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    private static void send(JsonNode command, Producer<byte[], byte[]> producer, ObjectNode answer)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        String topic = command.get("topic").asText();
        for (JsonNode record : command.get("records")) {
            List<Header> headers = new ArrayList<>();
            for (JsonNode header : record.path("headers")) {
                headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
            }
            sent.add(producer.send(new ProducerRecord<>(topic, number(record.path("partition")),
                longNumber(record.path("timestamp")), bytes(record.path("key")),
                bytes(record.path("value")), headers)));
        }
        producer.flush();
        ArrayNode places = answer.putArray("places");
        for (Future<RecordMetadata> future : sent) {
            RecordMetadata place = future.get();
            places.addArray().add(place.partition()).add(place.offset());
        }
    }

    private void consumer(JsonNode command, String name) {
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
            properties(command), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumers.put(name, consumer);
        String topic = command.get("topic").asText();
        if (command.path("partitions").isArray()) {
            List<TopicPartition> partitions = new ArrayList<>();
            command.get("partitions").forEach(
                partition -> partitions.add(new TopicPartition(topic, partition.asInt())));
            consumer.assign(partitions);
        } else {
            consumer.subscribe(List.of(topic));
        }
    }

    private static void poll(JsonNode command, Consumer<byte[], byte[]> consumer, ObjectNode answer) {
        ArrayNode records = answer.putArray("records");
        for (ConsumerRecord<byte[], byte[]> record
                : consumer.poll(Duration.ofMillis(command.get("timeout_ms").asLong()))) {
            ObjectNode one = records.addObject();
            one.put("partition", record.partition()).put("offset", record.offset());
            one.put("timestamp", record.timestamp());
            one.put("key", text(record.key())).put("value", text(record.value()));
            ArrayNode headers = one.putArray("headers");
            record.headers().forEach(
                header -> headers.addArray().add(header.key()).add(text(header.value())));
        }
        ArrayNode assignment = answer.putArray("assignment");
        Collection<TopicPartition> assigned = consumer.assignment();
        assigned.forEach(partition -> assignment.add(partition.partition()));
        if (command.path("positions").asBoolean()) {
            ArrayNode positions = answer.putArray("positions");
            assigned.forEach(partition ->
                positions.addArray().add(partition.partition()).add(consumer.position(partition)));
        }
    }

    private void closeConsumer(String name) {
        consumers.remove(name).close(
            org.apache.kafka.clients.consumer.CloseOptions.timeout(CLOSE));
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode command) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        String topic = command.get("topic").asText();
        for (JsonNode offset : command.get("offsets")) {
            offsets.put(new TopicPartition(topic, offset.get(0).asInt()),
                new OffsetAndMetadata(offset.get(1).asLong()));
        }
        return offsets;
    }

    private static Properties properties(JsonNode command) {
        Properties properties = new Properties();
        command.get("config").properties().forEach(
            entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        return properties;
    }

    private static Integer number(JsonNode node) {
        return node.isNumber() ? Integer.valueOf(node.asInt()) : null;
    }

    private static Long longNumber(JsonNode node) {
        return node.isNumber() ? Long.valueOf(node.asLong()) : null;
    }

    private static byte[] bytes(JsonNode node) {
        return node.isTextual() ? Base64.getDecoder().decode(node.asText()) : null;
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
