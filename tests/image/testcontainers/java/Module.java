import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/** testcontainers for Java, with the image as a substitute of apache/kafka. */
public class Module {
    public static void main(String[] arguments) throws Exception {
        DockerImageName image =
                DockerImageName.parse(arguments[0]).asCompatibleSubstituteFor("apache/kafka");
        try (KafkaContainer container = new KafkaContainer(image)) {
            container.start();
            System.out.println("ADDRESS " + container.getBootstrapServers());
            while (System.in.read() >= 0) {}
        }
    }
}
