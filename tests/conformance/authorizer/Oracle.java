import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's StandardAuthorizer behind files: a world per line in, its decisions per line out.
 *
 * <p>A world has super users, the default, and steps. A step adds a rule, removes the rule with a
 * number, or asks: one question (an operation, a resource), or one about a resource type.
 */
public final class Oracle {
    private record Context(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        try (BufferedReader worlds = Files.newBufferedReader(Path.of(arguments[0]));
                PrintWriter decisions =
                        new PrintWriter(Files.newBufferedWriter(Path.of(arguments[1])))) {
            for (String line = worlds.readLine(); line != null; line = worlds.readLine()) {
                decisions.println(decide(json.readTree(line), json.createArrayNode()));
            }
        }
    }

    private static ArrayNode decide(JsonNode world, ArrayNode decisions) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
                "super.users", world.get("super").asText(),
                "allow.everyone.if.no.acl.found", world.get("default").asText()));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        Map<Integer, Uuid> ids = new HashMap<>();
        for (JsonNode step : world.get("steps")) {
            String kind = step.get(0).asText();
            if (kind.equals("add")) {
                Uuid id = Uuid.randomUuid();
                ids.put(ids.size(), id);
                authorizer.addAcl(id, new StandardAcl(
                        ResourceType.fromCode((byte) step.get(1).asInt()),
                        step.get(2).asText(),
                        PatternType.fromCode((byte) step.get(3).asInt()),
                        step.get(4).asText(),
                        step.get(5).asText(),
                        AclOperation.fromCode((byte) step.get(6).asInt()),
                        AclPermissionType.fromCode((byte) step.get(7).asInt())));
            } else if (kind.equals("remove")) {
                authorizer.removeAcl(ids.get(step.get(1).asInt()));
            } else {
                decisions.add(answer(authorizer, kind, step));
            }
        }
        return decisions;
    }

    private static int answer(StandardAuthorizer authorizer, String kind, JsonNode step)
            throws Exception {
        Context context = new Context(
                SecurityUtils.parseKafkaPrincipal(step.get(1).asText()),
                InetAddress.getByName(step.get(2).asText()));
        AclOperation operation = AclOperation.fromCode((byte) step.get(3).asInt());
        ResourceType type = ResourceType.fromCode((byte) step.get(4).asInt());
        AuthorizationResult result;
        if (kind.equals("any")) {
            result = authorizer.authorizeByResourceType(context, operation, type);
        } else {
            ResourcePattern resource =
                    new ResourcePattern(type, step.get(5).asText(), PatternType.LITERAL);
            result = authorizer
                    .authorize(context, List.of(new Action(operation, resource, 1, true, true)))
                    .get(0);
        }
        return result == AuthorizationResult.ALLOWED ? 1 : 0;
    }
}
