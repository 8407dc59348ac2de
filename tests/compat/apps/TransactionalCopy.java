import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies one topic to another, the records and the offsets in one transaction; every fifth transaction is aborted, and its
 * records are copied again. Prints a line for every transaction that it ends; it exits with 3 when
 * another producer has taken its transactional id.
 *
 * <p>java TransactionalCopy.java BOOTSTRAP-SERVERS GROUP-PROTOCOL
 */
public class TransactionalCopy {
    public static void main(String[] arguments) {
        Properties reading = new Properties();
        reading.put("bootstrap.servers", arguments[0]);
        reading.put("group.id", "copies");
        reading.put("group.protocol", arguments[1]);
        if (arguments[1].equals("classic")) {
            // A process that was killed is missed sooner than by default; in the new protocol that is the broker's to say.
            reading.put("session.timeout.ms", 6000);
            reading.put("heartbeat.interval.ms", 1000);
        }
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", false);
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", 50);
        Properties writing = new Properties();
        writing.put("bootstrap.servers", arguments[0]);
        writing.put("transactional.id", "copier");
        writing.put("transaction.timeout.ms", 10000);

        var text = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(reading, text, text)) {
            consumer.subscribe(List.of("source"));
            while (true) {
                // A producer that cannot even abort is replaced by a new one, which aborts what the old one left.
                try (var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
                    producer.initTransactions();
                    System.out.println("ready");
                    copy(consumer, producer);
                } catch (ProducerFencedException error) {
                    System.out.println("fenced");
                    System.exit(3);
                } catch (KafkaException error) {
                    System.out.println("again after " + error);
                    goBack(consumer);
                }
            }
        }
    }

    private static void copy(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer) {
        for (int number = 1; ; number++) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            if (records.isEmpty()) {
                number--;
                continue;
            }
            try {
                copyOnce(records, consumer, producer, number % 5 != 0);
            } catch (ProducerFencedException error) {
                throw error;
            } catch (KafkaException error) {
                System.out.println("aborted after " + error);
                // A zombie that was told only of an old epoch learns here that it was replaced.
                producer.abortTransaction();
                goBack(consumer);
            }
        }
    }

    private static void copyOnce(
            ConsumerRecords<String, String> records,
            KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer,
            boolean commits) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            producer.send(new ProducerRecord<>("copy", record.partition(), record.key(), record.value()));
            var partition = new TopicPartition(record.topic(), record.partition());
            offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        if (commits) {
            producer.commitTransaction();
            System.out.println("committed");
        } else {
            producer.abortTransaction();
            goBack(consumer);
            System.out.println("aborted");
        }
    }

    private static void goBack(KafkaConsumer<String, String> consumer) {
        consumer.committed(consumer.assignment()).forEach((partition, position) -> {
            if (position == null) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, position);
            }
        });
    }
}
