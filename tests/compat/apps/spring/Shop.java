package shop;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.kafka.annotation.BackOff;
import org.springframework.kafka.annotation.DltHandler;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.listener.AfterRollbackProcessor;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultAfterRollbackProcessor;
import org.springframework.kafka.retrytopic.RetryTopicHeaders;
import org.springframework.kafka.support.KafkaHeaders;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.messaging.handler.annotation.Payload;
import org.springframework.stereotype.Component;
import org.springframework.util.backoff.FixedBackOff;

/**
 * A Spring Boot application. It copies orders one by one, and readings in batches, exactly once: a listener that throws rolls its
 * transaction back and is called again; an order that it can never take goes to a dead-letter topic. Payments are tried again
 * through topics of their own, without transactions.
 *
 * <p>java shop.Shop BOOTSTRAP-SERVERS
 */
@SpringBootApplication
public class Shop {
    public static void main(String[] arguments) {
        SpringApplication application = new SpringApplication(Shop.class);
        application.setDefaultProperties(Map.ofEntries(
                Map.entry("spring.main.banner-mode", "off"),
                Map.entry("logging.level.root", "warn"),
                Map.entry("spring.kafka.bootstrap-servers", arguments[0]),
                Map.entry("spring.kafka.consumer.auto-offset-reset", "earliest"),
                Map.entry("spring.kafka.consumer.isolation-level", "read_committed"),
                // A process that was killed is missed sooner than by default.
                Map.entry("spring.kafka.consumer.properties.session.timeout.ms", "6000"),
                Map.entry("spring.kafka.consumer.heartbeat-interval", "1s"),
                Map.entry("spring.kafka.consumer.max-poll-records", "50"),
                Map.entry("spring.kafka.producer.transaction-id-prefix", "shop-"),
                Map.entry("spring.kafka.producer.properties.transaction.timeout.ms", "10000"),
                Map.entry("spring.kafka.listener.concurrency", "2")));
        application.run();
        System.out.println("started");
    }

    @Configuration
    static class Topics {
        @Bean
        KafkaAdmin.NewTopics topics() {
            return new KafkaAdmin.NewTopics(topic("copied"), topic("copied-readings"), topic("orders-dlt"));
        }

        private static NewTopic topic(String name) {
            return TopicBuilder.name(name).partitions(2).replicas(1).config("retention.ms", "3600000").build();
        }
    }

    @Component
    static class Copies {
        private final KafkaTemplate<Object, Object> template;
        private final Set<String> failedOnce = ConcurrentHashMap.newKeySet();

        Copies(KafkaTemplate<Object, Object> template) {
            this.template = template;
        }

        @Bean
        @Primary
        static KafkaTemplate<Object, Object> kafkaTemplate(ProducerFactory<Object, Object> producers) {
            return new KafkaTemplate<>(producers);
        }

        @Bean
        static AfterRollbackProcessor<Object, Object> afterRollback(KafkaTemplate<Object, Object> template) {
            var recoverer = new DeadLetterPublishingRecoverer(
                    template, (order, error) -> new TopicPartition(order.topic() + "-dlt", order.partition()));
            return new DefaultAfterRollbackProcessor<>(recoverer, new FixedBackOff(0, 2), template, true);
        }

        @KafkaListener(id = "orders", topics = "orders")
        void order(ConsumerRecord<String, String> order) {
            template.send("copied", order.partition(), order.key(), order.value());
            if (order.value().startsWith("poison")) {
                throw new IllegalArgumentException("this order cannot be read");
            }
            failOnce(order);
        }

        @KafkaListener(id = "readings", topics = "readings", batch = "true")
        void readings(List<ConsumerRecord<String, String>> readings) {
            for (var reading : readings) {
                template.send("copied-readings", reading.partition(), reading.key(), reading.value());
                failOnce(reading);
            }
        }

        private void failOnce(ConsumerRecord<String, String> record) {
            if (record.offset() % 40 == 7 && failedOnce.add(record.topic() + record.partition() + "-" + record.offset())) {
                System.out.println("failed " + record.topic());
                throw new IllegalStateException("a store is away for a moment");
            }
        }
    }

    @Component
    static class Payments {
        @Bean
        static KafkaTemplate<Object, Object> plainTemplate(ProducerFactory<Object, Object> transactional) {
            var settings = transactional.getConfigurationProperties();
            return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(settings));
        }

        @Bean
        static ConcurrentKafkaListenerContainerFactory<Object, Object> plainFactory(
                ConsumerFactory<Object, Object> consumers) {
            var factory = new ConcurrentKafkaListenerContainerFactory<Object, Object>();
            factory.setConsumerFactory(consumers);
            return factory;
        }

        @RetryableTopic(
                attempts = "3",
                backOff = @BackOff(delay = 100),
                kafkaTemplate = "plainTemplate",
                listenerContainerFactory = "plainFactory")
        @KafkaListener(id = "payments", topics = "payments", containerFactory = "plainFactory")
        void pay(
                @Payload String payment,
                @Header(name = RetryTopicHeaders.DEFAULT_HEADER_ATTEMPTS, required = false) Integer attempt) {
            int number = attempt == null ? 1 : attempt;
            if (payment.startsWith("bad") || payment.startsWith("late") && number < 3) {
                throw new IllegalStateException("the bank is away");
            }
            System.out.println("paid " + payment + " at attempt " + number);
        }

        @DltHandler
        void giveUp(@Payload String payment, @Header(KafkaHeaders.RECEIVED_TOPIC) String topic) {
            System.out.println("gave up " + payment + " in " + topic);
        }
    }
}
