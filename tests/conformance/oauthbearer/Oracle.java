import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.sasl.SaslException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.security.auth.SaslExtensions;
import org.apache.kafka.common.security.authenticator.SaslInternalConfigs;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.JwtRetrieverException;
import org.apache.kafka.common.security.oauthbearer.JwtValidatorException;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.expiring.ExpiringCredential;
import org.apache.kafka.common.security.oauthbearer.internals.expiring.ExpiringCredentialRefreshConfig;
import org.apache.kafka.common.security.oauthbearer.internals.expiring.ExpiringCredentialRefreshingLogin;
import org.apache.kafka.common.security.oauthbearer.internals.secured.ClientSecretRequestFormatter;
import org.apache.kafka.common.security.oauthbearer.internals.secured.JwtResponseParser;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;
import org.apache.kafka.common.utils.Time;

/**
 * Kafka's classes of OAUTHBEARER behind files: a question per line in, its answer per line out.
 */
public final class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, BrokerJwtValidator> VALIDATORS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        try (BufferedReader questions = Files.newBufferedReader(Path.of(arguments[0]));
                PrintWriter answers =
                        new PrintWriter(Files.newBufferedWriter(Path.of(arguments[1])))) {
            for (String line = questions.readLine(); line != null; line = questions.readLine()) {
                answers.println(answer(JSON.readTree(line)));
            }
        }
    }

    private static JsonNode answer(JsonNode question) throws Exception {
        switch (question.get("kind").asText()) {
            case "read":
                return read(question);
            case "write":
                return write(question);
            case "exchange":
                return exchange(question);
            case "signed":
                return signed(question);
            case "refresh":
                return refresh(question);
            case "request":
                return request(question);
            default:
                return response(question);
        }
    }

    private static ObjectNode refused() {
        return JSON.createObjectNode().put("refused", true);
    }

    private static byte[] bytes(JsonNode node) {
        return Base64.getDecoder().decode(node.asText());
    }

    private static String text(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    private static JsonNode read(JsonNode question) {
        OAuthBearerClientInitialResponse response;
        try {
            response = new OAuthBearerClientInitialResponse(bytes(question.get("message")));
        } catch (SaslException | IllegalArgumentException e) {
            // Kafka fails with IllegalArgumentException where it wants to name a wrong scheme.
            return refused();
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.put("token", response.tokenValue());
        answer.put("name", response.authorizationId());
        answer.set("extensions", JSON.valueToTree(new TreeMap<>(response.extensions().map())));
        return answer;
    }

    private static JsonNode write(JsonNode question) {
        Map<String, String> extensions = new HashMap<>();
        question.get("extensions").properties()
                .forEach(entry -> extensions.put(entry.getKey(), entry.getValue().asText()));
        try {
            byte[] message = new OAuthBearerClientInitialResponse(
                    question.get("token").asText(), new SaslExtensions(extensions)).toBytes();
            return JSON.createObjectNode().put("message", text(message));
        } catch (SaslException e) {
            return refused();
        }
    }

    /** The broker's side with unsecured tokens, at the time of the question. */
    private static JsonNode exchange(JsonNode question) throws Exception {
        Map<String, String> options = new HashMap<>();
        question.get("options").properties()
                .forEach(entry -> options.put(entry.getKey(), entry.getValue().asText()));
        OAuthBearerUnsecuredValidatorCallbackHandler handler =
                new OAuthBearerUnsecuredValidatorCallbackHandler();
        handler.configure(Map.of(), "OAUTHBEARER", List.of(new AppConfigurationEntry(
                "module", AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options)));
        set(OAuthBearerUnsecuredValidatorCallbackHandler.class, handler, "time",
                fixed(question.get("now").asLong()));
        OAuthBearerSaslServer server = new OAuthBearerSaslServer(handler);
        ArrayNode steps = JSON.createArrayNode();
        for (JsonNode message : question.get("messages")) {
            ObjectNode step = steps.addObject();
            try {
                step.put("challenge", text(server.evaluateResponse(bytes(message))));
            } catch (SaslAuthenticationException e) {
                step.put("error", e.getMessage());
                break;
            } catch (SaslException | RuntimeException e) {
                // The connection gets a general text, so that nothing of the token is in it.
                step.put("error", "general");
                break;
            }
            if (server.isComplete()) {
                step.put("principal", server.getAuthorizationID());
                step.put("expires", (Long) server.getNegotiatedProperty(
                        SaslInternalConfigs.CREDENTIAL_LIFETIME_MS_SASL_NEGOTIATED_PROPERTY_KEY));
                break;
            }
        }
        return steps;
    }

    private static JsonNode signed(JsonNode question) throws Exception {
        JsonNode settings = question.get("settings");
        BrokerJwtValidator validator = VALIDATORS.get(settings.toString());
        if (validator == null) {
            String url = settings.get("url").asText();
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", url);
            Map<String, Object> configs = new HashMap<>();
            configs.put("sasl.oauthbearer.jwks.endpoint.url", url);
            configs.put("sasl.oauthbearer.clock.skew.seconds", settings.get("skew").asInt());
            configs.put("sasl.oauthbearer.sub.claim.name", settings.get("sub").asText());
            configs.put("sasl.oauthbearer.scope.claim.name", settings.get("scope").asText());
            List<String> audience = new ArrayList<>();
            settings.get("audience").forEach(name -> audience.add(name.asText()));
            configs.put("sasl.oauthbearer.expected.audience", audience);
            if (!settings.get("issuer").isNull()) {
                configs.put("sasl.oauthbearer.expected.issuer", settings.get("issuer").asText());
            }
            validator = new BrokerJwtValidator();
            validator.configure(configs, "OAUTHBEARER", List.of(new AppConfigurationEntry(
                    "module", AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, Map.of())));
            VALIDATORS.put(settings.toString(), validator);
        }
        ObjectNode answer = JSON.createObjectNode();
        try {
            OAuthBearerToken token = validator.validate(question.get("token").asText());
            answer.put("subject", token.principalName());
            answer.put("expires", token.lifetimeMs());
            answer.set("scopes", JSON.valueToTree(new TreeSet<>(token.scope())));
        } catch (JwtValidatorException | ClassCastException | ArithmeticException e) {
            answer.put("refused", true).put("why", String.valueOf(e.getMessage()));
        }
        return answer;
    }

    /** The time of the next login, without jitter. */
    private static JsonNode refresh(JsonNode question) throws Exception {
        long expires = question.get("expires").asLong();
        Long issued = question.get("issued").isNull() ? null : question.get("issued").asLong();
        ExpiringCredential credential = new ExpiringCredential() {
            @Override
            public String principalName() {
                return "alice";
            }

            @Override
            public Long startTimeMs() {
                return issued;
            }

            @Override
            public long expireTimeMs() {
                return expires;
            }

            @Override
            public Long absoluteLastRefreshTimeMs() {
                return null;
            }
        };
        Map<String, Object> configs = new HashMap<>();
        configs.put("sasl.login.refresh.window.factor", question.get("factor").asDouble());
        configs.put("sasl.login.refresh.window.jitter", 0.0);
        configs.put("sasl.login.refresh.min.period.seconds",
                (short) question.get("least").asInt());
        configs.put("sasl.login.refresh.buffer.seconds", (short) question.get("buffer").asInt());
        ExpiringCredentialRefreshingLogin login = new ExpiringCredentialRefreshingLogin(
                "context", new NoConfiguration(), new ExpiringCredentialRefreshConfig(configs, true), null,
                Oracle.class) {
            @Override
            public ExpiringCredential expiringCredential() {
                return credential;
            }
        };
        set(ExpiringCredentialRefreshingLogin.class, login, "expiringCredential", credential);
        Method method =
                ExpiringCredentialRefreshingLogin.class.getDeclaredMethod("refreshMs", long.class);
        method.setAccessible(true);
        return JSON.valueToTree(method.invoke(login, question.get("now").asLong()));
    }

    private static JsonNode request(JsonNode question) {
        ClientSecretRequestFormatter formatter = new ClientSecretRequestFormatter(
                question.get("id").asText(), question.get("secret").asText(),
                question.get("scope").asText(), question.get("encode").asBoolean());
        ObjectNode answer = JSON.createObjectNode();
        answer.set("headers", JSON.valueToTree(new TreeMap<>(formatter.formatHeaders())));
        return answer.put("body", formatter.formatBody());
    }

    private static JsonNode response(JsonNode question) {
        try {
            return JSON.createObjectNode()
                    .put("token", new JwtResponseParser().parseJwt(question.get("body").asText()));
        } catch (JwtRetrieverException e) {
            return refused();
        }
    }

    private static void set(Class<?> type, Object object, String name, Object value)
            throws Exception {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }

    private static Time fixed(long nowMs) {
        return (Time) Proxy.newProxyInstance(Oracle.class.getClassLoader(),
                new Class<?>[] {Time.class}, (proxy, method, values) -> nowMs);
    }

    private static final class NoConfiguration extends Configuration {
        @Override
        public AppConfigurationEntry[] getAppConfigurationEntry(String name) {
            return null;
        }
    }
}
