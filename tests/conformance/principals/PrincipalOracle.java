import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Java's names of subjects, and Kafka's principals for them: a question per line in, an array per
 * line out.
 *
 * <p>A question is {@code ["name", DER in hexadecimal]}, or {@code ["rules", rules, name, ...]}. The
 * result has a text for each name, and null where Java throws. If the rules are invalid, it is empty.
 */
public final class PrincipalOracle {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        try (BufferedReader questions = Files.newBufferedReader(Path.of(arguments[0]));
                PrintWriter results =
                        new PrintWriter(Files.newBufferedWriter(Path.of(arguments[1])))) {
            for (String line = questions.readLine(); line != null; line = questions.readLine()) {
                JsonNode question = json.readTree(line);
                ArrayNode result = json.createArrayNode();
                if (question.get(0).asText().equals("name")) {
                    result.add(name(HexFormat.of().parseHex(question.get(1).asText())));
                } else {
                    principals(question, result);
                }
                results.println(json.writeValueAsString(result));
            }
        }
    }

    private static String name(byte[] der) {
        try {
            return new X500Principal(der).getName();
        } catch (IllegalArgumentException invalid) {
            return null;
        }
    }

    private static void principals(JsonNode question, ArrayNode result) {
        SslPrincipalMapper mapper;
        try {
            mapper = SslPrincipalMapper.fromRules(question.get(1).asText());
        } catch (IllegalArgumentException invalid) {
            return;
        }
        for (int i = 2; i < question.size(); i++) {
            try {
                result.add(mapper.getName(question.get(i).asText()));
            } catch (Exception refused) {
                result.add((String) null);
            }
        }
    }
}
