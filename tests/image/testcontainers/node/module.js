// testcontainers for Node, with the image in place of Confluent's.
import { KafkaContainer } from "@testcontainers/kafka";

// podman's interface lists each port of the image among the bound ports, and the module waits until
// they are bound. So the port of the image, which the module does not use, is bound as well.
const container = await new KafkaContainer(process.argv[2])
  .withKraft()
  .withExposedPorts(9092)
  .start();
console.log(`ADDRESS ${container.getHost()}:${container.getMappedPort(9093)}`);
for await (const _ of process.stdin);
await container.stop();
