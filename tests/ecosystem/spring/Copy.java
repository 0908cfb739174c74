import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.transaction.KafkaTransactionManager;

/**
 * Reads, processes and writes in transactions: each record of `in` gives one record of `out`, and
 * the listener container commits the offset in the same transaction.
 *
 * <p>Arguments: the address of a broker and the prefix of this instance's transactional ids.
 */
@Configuration
@EnableKafka
public class Copy {
    static String address;
    static String prefix;

    @Bean
    ProducerFactory<String, String> producers() {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        settings.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
        settings.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class);
        // Another instance takes over the partitions of a killed one, and waits for its
        // transaction.
        settings.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, 3000);
        DefaultKafkaProducerFactory<String, String> factory =
                new DefaultKafkaProducerFactory<>(settings);
        factory.setTransactionIdPrefix(prefix);
        return factory;
    }

    @Bean
    KafkaTemplate<String, String> template(ProducerFactory<String, String> producers) {
        return new KafkaTemplate<>(producers);
    }

    @Bean
    KafkaTransactionManager<String, String> transactions(
            ProducerFactory<String, String> producers) {
        return new KafkaTransactionManager<>(producers);
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory(
            KafkaTransactionManager<String, String> transactions) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, "spring");
        settings.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        settings.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 1000);
        settings.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 200);
        ConcurrentKafkaListenerContainerFactory<String, String> factory =
                new ConcurrentKafkaListenerContainerFactory<>();
        factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(settings));
        factory.getContainerProperties().setKafkaAwareTransactionManager(transactions);
        // A failed transaction is tried again from the committed offset, without end.
        factory.setAfterRollbackProcessor(
                new org.springframework.kafka.listener.DefaultAfterRollbackProcessor<>(
                        new org.springframework.util.backoff.FixedBackOff(100, Long.MAX_VALUE)));
        return factory;
    }

    @Autowired KafkaTemplate<String, String> template;

    @KafkaListener(topics = "in")
    void copy(ConsumerRecord<String, String> record) {
        template.send("out", record.key(), record.value());
    }

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        prefix = arguments[1];
        AnnotationConfigApplicationContext context =
                new AnnotationConfigApplicationContext(Copy.class);
        Runtime.getRuntime().addShutdownHook(new Thread(context::close));
        Thread.currentThread().join();
    }
}
