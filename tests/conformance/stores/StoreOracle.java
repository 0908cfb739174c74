import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

/**
 * Kafka's loading of key stores and trust stores: settings as a JSON object per line in, a result
 * per line out. A result has the chain of the key and the trusted certificates, in hexadecimal, or
 * the message of Kafka's refusal.
 */
public final class StoreOracle {
    private static final List<String> PASSWORDS = List.of(
            "ssl.keystore.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
            "ssl.key.password", "ssl.truststore.password", "ssl.truststore.certificates");

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        try (BufferedReader questions = Files.newBufferedReader(Path.of(arguments[0]));
                PrintWriter results =
                        new PrintWriter(Files.newBufferedWriter(Path.of(arguments[1])))) {
            for (String line = questions.readLine(); line != null; line = questions.readLine()) {
                results.println(load(json.readTree(line), json.createObjectNode()));
            }
        }
    }

    private static ObjectNode load(JsonNode settings, ObjectNode result) throws Exception {
        Map<String, Object> configs = new HashMap<>();
        configs.put("ssl.protocol", "TLSv1.3");
        configs.put("ssl.cipher.suites", List.of());
        configs.put("ssl.enabled.protocols", List.of());
        configs.put("ssl.client.auth", "none");
        settings.fields().forEachRemaining(field -> {
            String text = field.getValue().asText();
            boolean isSecret = PASSWORDS.contains(field.getKey());
            configs.put(field.getKey(), isSecret ? new Password(text) : text);
        });
        DefaultSslEngineFactory factory = new DefaultSslEngineFactory();
        try {
            factory.configure(configs);
        } catch (Exception refused) {
            return result.put("refused", refused.getMessage());
        }
        ArrayNode chain = result.putArray("chain");
        ArrayNode trusted = result.putArray("trusted");
        if (factory.keystore() != null) {
            for (String alias : Collections.list(factory.keystore().aliases())) {
                if (factory.keystore().isKeyEntry(alias)) {
                    for (Certificate each : factory.keystore().getCertificateChain(alias)) {
                        chain.add(HexFormat.of().formatHex(each.getEncoded()));
                    }
                }
            }
        }
        if (factory.truststore() != null) {
            addTrusted(factory.truststore(), trusted);
        }
        return result;
    }

    /** As the PKIX trust manager: the certificate of each entry, for a key the first one. */
    private static void addTrusted(KeyStore store, ArrayNode trusted) throws Exception {
        for (String alias : Collections.list(store.aliases())) {
            Certificate certificate = store.getCertificate(alias);
            if (certificate != null) {
                trusted.add(HexFormat.of().formatHex(certificate.getEncoded()));
            }
        }
    }
}
