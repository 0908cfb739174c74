"""SASL and JAAS, compared with the classes of Kafka and of the JDK."""
