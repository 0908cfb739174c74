import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A Flink job that copies the topic `in` to the topic `out` exactly once, in a cluster of this one
 * process. It starts from the newest complete checkpoint of the processes before it. At the end of
 * standard input, the job ends with a savepoint.
 *
 * <p>Arguments: the address of a broker, the folder of the checkpoints and of temporary files, the
 * naming strategy of the transactions, and optionally the timeout of a transaction in milliseconds.
 */
public final class Copier {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        Path folder = Path.of(arguments[1]);
        Path checkpoints = Files.createDirectories(folder.resolve("checkpoints"));

        Configuration settings = new Configuration();
        settings.setString("parallelism.default", "2");
        settings.setString("execution.checkpointing.interval", "500 ms");
        settings.setString("execution.checkpointing.dir", checkpoints.toUri().toString());
        settings.setString(
                "execution.checkpointing.externalized-checkpoint-retention",
                "RETAIN_ON_CANCELLATION");
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "1000000");
        settings.setString("restart-strategy.fixed-delay.delay", "200 ms");
        settings.setString("io.tmp.dirs", emptied(folder.resolve("temporary")).toString());
        newest(checkpoints).ifPresent(checkpoint -> {
            System.out.println("starts from " + checkpoint);
            settings.setString("execution.state-recovery.path", checkpoint.toUri().toString());
        });

        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(address)
                .setTopics("in")
                .setGroupId("copier")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
        KafkaSinkBuilder<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(address)
                .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                        .setTopic("out")
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(arguments[2]))
                .setTransactionalIdPrefix("copier")
                // A broker that is down for longer fails the job, and Flink restarts the job in
                // this process. A short max.block.ms would end the process's only TaskManager: an
                // abort that times out is a fatal error to Flink.
                .setProperty("request.timeout.ms", "500")
                .setProperty("delivery.timeout.ms", "1000")
                // Most kills of the broker find a batch that is not written yet.
                .setProperty("linger.ms", "20");
        if (arguments.length > 3) {
            sink.setProperty("transaction.timeout.ms", arguments[3]);
        }

        StreamExecutionEnvironment environment =
                StreamExecutionEnvironment.getExecutionEnvironment(settings);
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "in")
                .map(number -> "copy of " + number)
                .sinkTo(sink.build());
        JobClient job = environment.executeAsync("copier");
        while (System.in.read() >= 0) {}
        String savepoints = folder.resolve("savepoints").toUri().toString();
        job.stopWithSavepoint(false, savepoints, SavepointFormatType.CANONICAL).get();
        job.getJobExecutionResult().get();
        System.exit(0);
    }

    /** Returns the folder of the complete checkpoint with the highest number. */
    private static Optional<Path> newest(Path checkpoints) throws IOException {
        try (Stream<Path> files = Files.find(checkpoints, 3, (file, attributes) ->
                file.getFileName().toString().equals("_metadata"))) {
            return files.map(Path::getParent).max(Comparator.comparingLong(Copier::number));
        }
    }

    private static long number(Path checkpoint) {
        return Long.parseLong(checkpoint.getFileName().toString().substring("chk-".length()));
    }

    /** Deletes what a killed process has left in the folder. */
    private static Path emptied(Path folder) throws IOException {
        if (Files.exists(folder)) {
            try (Stream<Path> files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            }
        }
        return Files.createDirectories(folder);
    }
}
