import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.URIParameter;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;
import javax.security.sasl.SaslServer;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.security.authenticator.CredentialCache;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.kafka.common.security.plain.internals.PlainSaslServer;
import org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.ScramExtensionsCallback;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ClientFinalMessage;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ClientFirstMessage;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ServerFinalMessage;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ServerFirstMessage;
import org.apache.kafka.common.security.scram.internals.ScramSaslClient;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;
import org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;

/**
 * Kafka's SASL behind a pipe: a command per line in, a JSON object per line out.
 *
 * <p>It is a client or a server of one exchange at a time, or reads a JAAS configuration.
 */
public final class SaslOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static SaslClient client;
    private static SaslServer server;

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream results = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode result = JSON.createObjectNode();
            try {
                run(JSON.readTree(line), result);
            } catch (Throwable failure) {
                result.removeAll();
                result.put("error", failure.getClass().getSimpleName());
                result.put("message", String.valueOf(failure.getMessage()));
            }
            results.println(result);
        }
    }

    private static void run(JsonNode command, ObjectNode result) throws Exception {
        switch (command.get("op").asText()) {
            case "client" -> {
                client = newClient(command);
                put(result, client.evaluateChallenge(new byte[0]), client.isComplete());
            }
            case "challenge" ->
                    put(result, client.evaluateChallenge(token(command)), client.isComplete());
            case "server" -> server = newServer(command);
            case "response" -> {
                put(result, server.evaluateResponse(token(command)), server.isComplete());
                if (server.isComplete()) {
                    result.put("name", server.getAuthorizationID());
                }
            }
            case "message" -> put(result, command.get("kind").asText(), token(command));
            case "property" -> {
                JaasContext context = JaasContext.loadClientContext(Map.of(
                        SaslConfigs.SASL_JAAS_CONFIG, new Password(command.get("text").asText())));
                put(result.putArray("entries"), context.configurationEntries());
            }
            case "file" -> {
                Configuration file = Configuration.getInstance(
                        "JavaLoginConfig",
                        new URIParameter(Path.of(command.get("path").asText()).toUri()));
                for (JsonNode name : command.get("names")) {
                    AppConfigurationEntry[] entries =
                            file.getAppConfigurationEntry(name.asText());
                    if (entries != null) {
                        put(result.putArray(name.asText()), List.of(entries));
                    }
                }
            }
            default -> throw new IllegalArgumentException("unknown command");
        }
    }

    private static void put(ObjectNode result, String kind, byte[] message) throws Exception {
        ArrayNode fields = result.putArray("fields");
        switch (kind) {
            case "client first" -> {
                ClientFirstMessage first = new ClientFirstMessage(message);
                fields.add(first.authorizationId()).add(first.saslName()).add(first.nonce());
                fields.add(JSON.valueToTree(first.extensions().map()));
            }
            case "server first" -> {
                ServerFirstMessage first = new ServerFirstMessage(message);
                fields.add(first.nonce()).add(first.salt()).add(first.iterations());
            }
            case "client final" -> {
                ClientFinalMessage last = new ClientFinalMessage(message);
                fields.add(last.channelBinding()).add(last.nonce()).add(last.proof());
            }
            default -> {
                ServerFinalMessage last = new ServerFinalMessage(message);
                fields.add(last.error()).add(last.serverSignature());
            }
        }
    }

    private static SaslClient newClient(JsonNode command) throws Exception {
        String mechanism = command.get("mechanism").asText();
        CallbackHandler credentials = callbacks -> {
            for (Callback callback : callbacks) {
                if (callback instanceof NameCallback name) {
                    name.setName(command.get("username").asText());
                } else if (callback instanceof PasswordCallback password) {
                    password.setPassword(command.get("password").asText().toCharArray());
                } else if (callback instanceof ScramExtensionsCallback extensions) {
                    extensions.extensions(options(command.get("extensions")));
                }
            }
        };
        return ScramMechanism.isScram(mechanism)
                ? new ScramSaslClient(ScramMechanism.forMechanismName(mechanism), credentials)
                : Sasl.createSaslClient(
                        new String[] {mechanism}, null, "kafka", "broker", Map.of(), credentials);
    }

    private static SaslServer newServer(JsonNode command) throws Exception {
        String name = command.get("mechanism").asText();
        if (!ScramMechanism.isScram(name)) {
            PlainServerCallbackHandler users = new PlainServerCallbackHandler();
            users.configure(Map.of(), name, List.of(new AppConfigurationEntry(
                    PlainLoginModule.class.getName(),
                    AppConfigurationEntry.LoginModuleControlFlag.REQUIRED,
                    options(command.get("options")))));
            return new PlainSaslServer(users);
        }
        ScramMechanism mechanism = ScramMechanism.forMechanismName(name);
        CredentialCache.Cache<ScramCredential> cache =
                new CredentialCache().createCache(name, ScramCredential.class);
        int iterations = command.get("iterations").asInt();
        for (Map.Entry<String, String> user : options(command.get("options")).entrySet()) {
            cache.put(user.getKey(), new ScramFormatter(mechanism)
                    .generateCredential(user.getValue(), iterations));
        }
        ScramServerCallbackHandler users = new ScramServerCallbackHandler(
                cache, new DelegationTokenCache(ScramMechanism.mechanismNames()));
        users.configure(Map.of(), name, List.of());
        return new ScramSaslServer(mechanism, Map.of(), users);
    }

    private static Map<String, String> options(JsonNode object) {
        Map<String, String> options = new HashMap<>();
        object.fields().forEachRemaining(
                field -> options.put(field.getKey(), field.getValue().asText()));
        return options;
    }

    private static byte[] token(JsonNode command) {
        return Base64.getDecoder().decode(command.get("token").asText());
    }

    private static void put(ObjectNode result, byte[] token, boolean isComplete) {
        result.put("token", token == null ? null : Base64.getEncoder().encodeToString(token));
        result.put("complete", isComplete);
    }

    private static void put(ArrayNode result, List<AppConfigurationEntry> entries) {
        for (AppConfigurationEntry entry : entries) {
            ArrayNode written = result.addArray();
            written.add(entry.getLoginModuleName());
            written.add(entry.getControlFlag().toString());
            ObjectNode options = written.addObject();
            entry.getOptions().forEach((name, value) -> {
                // JSON has no name for the option under null.
                if (name != null) {
                    options.put(name, (String) value);
                }
            });
        }
    }
}
