"""The image as a substitute of Kafka's, started by the Kafka modules of testcontainers in four
languages. Each program starts a container, prints `ADDRESS host:port`, and stops the container at
the end of its standard input."""
