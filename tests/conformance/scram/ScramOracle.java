package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.TreeMap;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData.ScramCredentialDeletion;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData.ScramCredentialUpsertion;
import org.apache.kafka.common.message.AlterUserScramCredentialsResponseData;
import org.apache.kafka.common.metadata.RemoveUserScramCredentialRecord;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Kafka's ScramControlManager behind files: per line in, the requests to a new controller; per line
 * out, for each request the results by user and the credentials after it.
 *
 * <p>A deletion is [user, mechanism], an upsertion [user, mechanism, iterations, salted password].
 */
public final class ScramOracle {
    private static final byte[] SALT = "salt".getBytes(StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        try (BufferedReader histories = Files.newBufferedReader(Path.of(arguments[0]));
                PrintWriter outcomes =
                        new PrintWriter(Files.newBufferedWriter(Path.of(arguments[1])))) {
            for (String line = histories.readLine(); line != null; line = histories.readLine()) {
                outcomes.println(played(json.readTree(line), json.createArrayNode()));
            }
        }
    }

    private static ArrayNode played(JsonNode requests, ArrayNode outcomes) {
        ScramControlManager manager = new ScramControlManager.Builder().build();
        TreeMap<String, ArrayNode> credentials = new TreeMap<>();
        for (JsonNode request : requests) {
            ControllerResult<AlterUserScramCredentialsResponseData> result =
                    manager.alterCredentials(message(request), MetadataVersion.latestProduction());
            for (ApiMessageAndVersion record : result.records()) {
                replay(manager, record, credentials);
            }
            ArrayNode outcome = outcomes.addArray();
            ObjectNode users = outcome.addObject();
            result.response().results().forEach(row ->
                    users.putArray(row.user()).add(row.errorCode()).add(row.errorMessage()));
            ObjectNode after = outcome.addObject();
            credentials.forEach(after::set);
        }
        return outcomes;
    }

    private static void replay(
            ScramControlManager manager,
            ApiMessageAndVersion record,
            TreeMap<String, ArrayNode> credentials) {
        if (record.message() instanceof UserScramCredentialRecord added) {
            manager.replay(added);
            ArrayNode fields = new ObjectMapper().createArrayNode();
            fields.add(text(added.salt())).add(text(added.storedKey()));
            fields.add(text(added.serverKey())).add(added.iterations());
            credentials.put(added.mechanism() + "/" + added.name(), fields);
        } else {
            RemoveUserScramCredentialRecord removed =
                    (RemoveUserScramCredentialRecord) record.message();
            manager.replay(removed);
            credentials.remove(removed.mechanism() + "/" + removed.name());
        }
    }

    private static AlterUserScramCredentialsRequestData message(JsonNode request) {
        AlterUserScramCredentialsRequestData data = new AlterUserScramCredentialsRequestData();
        for (JsonNode row : request.get(0)) {
            data.deletions().add(new ScramCredentialDeletion()
                    .setName(row.get(0).asText())
                    .setMechanism((byte) row.get(1).asInt()));
        }
        for (JsonNode row : request.get(1)) {
            data.upsertions().add(new ScramCredentialUpsertion()
                    .setName(row.get(0).asText())
                    .setMechanism((byte) row.get(1).asInt())
                    .setIterations(row.get(2).asInt())
                    .setSalt(SALT)
                    .setSaltedPassword(row.get(3).asText().getBytes(StandardCharsets.UTF_8)));
        }
        return data;
    }

    private static String text(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
