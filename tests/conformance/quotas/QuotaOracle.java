import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import kafka.server.ClientRequestQuotaManager;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Kafka's quota managers behind files: a trace per line in, its throttle times per line out.
 *
 * <p>A trace has a kind, the number and length of the windows, and steps: wait, set or remove a
 * limit, record an amount, take an amount back, ask for the most that a client may fetch.
 */
public final class QuotaOracle {
    private static final class Clock implements Time {
        private long now = 1_700_000_000_000L;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return TimeUnit.MILLISECONDS.toNanos(now);
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        try (BufferedReader traces = Files.newBufferedReader(Path.of(arguments[0]));
                PrintWriter throttles =
                        new PrintWriter(Files.newBufferedWriter(Path.of(arguments[1])))) {
            for (String line = traces.readLine(); line != null; line = traces.readLine()) {
                throttles.println(replay(json.readTree(line), json.createArrayNode()));
            }
        }
    }

    private static ArrayNode replay(JsonNode trace, ArrayNode results) throws Exception {
        Clock clock = new Clock();
        Metrics metrics = new Metrics(clock);
        ClientQuotaManager manager = manager(trace, metrics, clock);
        try {
            for (JsonNode step : trace.get("steps")) {
                String kind = step.get(0).asText();
                if (kind.equals("wait")) {
                    clock.sleep(step.get(1).asLong());
                } else if (kind.equals("limit")) {
                    manager.updateQuota(
                            user(step.get(1)),
                            clientId(step.get(2)),
                            step.get(3).isNull()
                                    ? Optional.empty()
                                    : Optional.of(new Quota(step.get(3).asDouble(), true)));
                } else {
                    results.add(asked(manager, clock, step));
                }
            }
        } finally {
            manager.initiateShutdown();
            metrics.close();
        }
        return results;
    }

    private static ClientQuotaManager manager(JsonNode trace, Metrics metrics, Clock clock) {
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(
                trace.get("samples").asInt(), trace.get("seconds").asInt());
        String kind = trace.get("kind").asText();
        if (kind.equals("request")) {
            return new ClientRequestQuotaManager(config, metrics, clock, "", Optional.empty());
        }
        if (kind.equals("mutation")) {
            return new ControllerMutationQuotaManager(config, metrics, clock, "", Optional.empty());
        }
        return new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, clock, "");
    }

    private static long asked(ClientQuotaManager manager, Clock clock, JsonNode step)
            throws Exception {
        KafkaPrincipal principal = new KafkaPrincipal("User", step.get(1).asText());
        Session session = new Session(principal, InetAddress.getLoopbackAddress());
        String clientId = step.get(2).asText();
        switch (step.get(0).asText()) {
            case "record":
                return manager.maybeRecordAndGetThrottleTimeMs(
                        session, clientId, step.get(3).asDouble(), clock.milliseconds());
            case "take back":
                if (manager.quotasEnabled()) {
                    manager.unrecordQuotaSensor(
                            session, clientId, step.get(3).asDouble(), clock.milliseconds());
                }
                return 0;
            case "most":
                return (int) manager.maxValueInQuotaWindow(session, clientId);
            default:
                return mutated((ControllerMutationQuotaManager) manager, session, step, clientId);
        }
    }

    /** Returns -1 - the throttle time if a topic is refused. */
    private static long mutated(
            ControllerMutationQuotaManager manager,
            Session session,
            JsonNode step,
            String clientId) {
        ControllerMutationQuota quota = step.get(0).asText().equals("strict")
                ? manager.newStrictQuotaFor(session, clientId)
                : manager.newPermissiveQuotaFor(session, clientId);
        boolean isRefused = false;
        for (JsonNode partitions : step.get(3)) {
            try {
                quota.record(partitions.asDouble());
            } catch (ThrottlingQuotaExceededException exceeded) {
                isRefused = true;
            }
        }
        return isRefused ? -1 - quota.throttleTime() : quota.throttleTime();
    }

    private static Optional<ConfigEntity> user(JsonNode name) {
        if (name.isNull()) {
            return Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
        }
        return name.asText().isEmpty()
                ? Optional.empty()
                : Optional.of(
                        new ClientQuotaManager.UserEntity(Sanitizer.sanitize(name.asText())));
    }

    private static Optional<ConfigEntity> clientId(JsonNode name) {
        if (name.isNull()) {
            return Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
        }
        return name.asText().isEmpty()
                ? Optional.empty()
                : Optional.of(new ClientQuotaManager.ClientIdEntity(name.asText()));
    }
}
