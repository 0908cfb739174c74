import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import kafka.network.ConnectionQuotas;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.ConnectionThrottledException;

/**
 * Kafka's ConnectionQuotas behind files: a trace per line in, the waits of its connections per line
 * out.
 *
 * <p>A trace has the settings of the broker, the limits of addresses, and connections: [time to
 * wait before it, listener, address]. The results of a connection are how long its listener waits,
 * and after that wait for how long it is throttled because of its address. The two steps are those
 * of ConnectionQuotas.inc, which would wait in real time.
 */
public final class ConnectionOracle {
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
                PrintWriter waits = new PrintWriter(Files.newBufferedWriter(Path.of(arguments[1])))) {
            for (String line = traces.readLine(); line != null; line = traces.readLine()) {
                waits.println(replay(json.readTree(line), json.createArrayNode()));
            }
        }
    }

    private static ArrayNode replay(JsonNode trace, ArrayNode results) throws Exception {
        Properties settings = new Properties();
        for (Iterator<Map.Entry<String, JsonNode>> given = trace.get("settings").fields();
                given.hasNext(); ) {
            Map.Entry<String, JsonNode> setting = given.next();
            settings.put(setting.getKey(), setting.getValue().asText());
        }
        KafkaConfig config = new KafkaConfig(settings, false);
        Clock clock = new Clock();
        Metrics metrics = new Metrics(clock);
        ConnectionQuotas quotas = new ConnectionQuotas(config, clock, metrics);
        for (JsonNode listener : trace.get("listeners")) {
            quotas.addListener(config, ListenerName.normalised(listener.asText()));
        }
        for (JsonNode limit : trace.get("addresses")) {
            Optional<InetAddress> address = limit.get(0).isNull()
                    ? Optional.empty()
                    : Optional.of(InetAddress.getByName(limit.get(0).asText()));
            quotas.updateIpConnectionRateQuota(
                    scala.jdk.javaapi.OptionConverters.toScala(address),
                    scala.Option.apply(limit.get(1).asInt()));
        }
        Method wait = method("recordConnectionAndGetThrottleTimeMs", ListenerName.class, long.class);
        Method throttle =
                method("recordIpConnectionMaybeThrottle", ListenerName.class, InetAddress.class);
        for (JsonNode connection : trace.get("connections")) {
            clock.sleep(connection.get(0).asLong());
            ListenerName listener = ListenerName.normalised(connection.get(1).asText());
            long waitMs = (long) wait.invoke(quotas, listener, clock.milliseconds());
            clock.sleep(waitMs);
            results.add(waitMs);
            results.add(throttled(quotas, throttle, listener, connection.get(2).asText()));
        }
        quotas.close();
        metrics.close();
        return results;
    }

    private static long throttled(
            ConnectionQuotas quotas, Method throttle, ListenerName listener, String address)
            throws Exception {
        try {
            throttle.invoke(quotas, listener, InetAddress.getByName(address));
            return 0;
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof ConnectionThrottledException) {
                return ((ConnectionThrottledException) thrown.getCause()).throttleTimeMs;
            }
            throw thrown;
        }
    }

    /** Returns a private method. Scala may have added a prefix with the class to its name. */
    private static Method method(String name, Class<?>... parameters) throws Exception {
        for (Method found : ConnectionQuotas.class.getDeclaredMethods()) {
            if (found.getName().endsWith(name) && found.getParameterCount() == parameters.length) {
                found.setAccessible(true);
                return found;
            }
        }
        throw new NoSuchMethodException(name);
    }
}
