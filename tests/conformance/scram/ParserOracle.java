package org.apache.kafka.metadata.storage;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;

/**
 * Kafka's ScramParser behind files: an argument of --add-scram per line in (a JSON string), its
 * record or its error per line out.
 */
public final class ParserOracle {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(Path.of(arguments[1])))) {
            for (String line : Files.readAllLines(Path.of(arguments[0]))) {
                ObjectNode outcome = json.createObjectNode();
                try {
                    UserScramCredentialRecord record = (UserScramCredentialRecord) ScramParser
                            .parse(List.of(json.readTree(line).asText())).get(0).message();
                    outcome.put("name", record.name());
                    outcome.put("mechanism", record.mechanism());
                    outcome.put("iterations", record.iterations());
                    outcome.put("salt", text(record.salt()));
                    outcome.put("stored", text(record.storedKey()));
                    outcome.put("server", text(record.serverKey()));
                } catch (Exception refused) {
                    outcome.put("error", String.valueOf(refused.getMessage()));
                }
                out.println(outcome);
            }
        }
    }

    private static String text(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
