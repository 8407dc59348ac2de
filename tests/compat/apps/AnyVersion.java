import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What every version of the Java clients since 0.11 can do: it makes a topic, writes to it in every codec of its arguments, then
 * in transactions of which every third is aborted, and reads committed records as two consumers of one group after each other.
 *
 * <p>java AnyVersion.java BOOTSTRAP-SERVERS TOPIC CODEC...
 */
public class AnyVersion {
    private static final int AT_ONCE = 100;

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        String topic = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        try (AdminClient admin = AdminClient.create(settings)) {
            admin.createTopics(Collections.singleton(new NewTopic(topic, 1, (short) 1))).all().get();
        }
        int count = 0;
        for (String codec : Arrays.asList(arguments).subList(2, arguments.length)) {
            try (KafkaProducer<String, String> producer = producer(servers, "compression.type", codec)) {
                send(producer, topic, codec);
            }
            count += AT_ONCE;
        }
        try (KafkaProducer<String, String> producer = producer(servers, "transactional.id", topic)) {
            producer.initTransactions();
            for (int number = 1; number <= 9; number++) {
                producer.beginTransaction();
                send(producer, topic, "transaction-" + number);
                if (number % 3 == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    count += AT_ONCE;
                }
            }
        }
        read(servers, topic, count / 2);
        read(servers, topic, count - count / 2);
    }

    private static KafkaProducer<String, String> producer(String servers, String name, String value) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("enable.idempotence", "true");
        settings.put("acks", "all");
        settings.put("retries", "1000");
        settings.put("max.in.flight.requests.per.connection", "1");
        settings.put(name, value);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static void send(KafkaProducer<String, String> producer, String topic, String name) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int number = 0; number < AT_ONCE; number++) {
            sent.add(producer.send(new ProducerRecord<>(topic, "key-" + number, name + " " + number)));
        }
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
    }

    /** Reads so many, not more, and commits them. */
    private static void read(String servers, String topic, int count) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", "readers-of-" + topic);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", "50");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(Collections.singletonList(topic));
            for (int found = 0; found < count; ) {
                for (ConsumerRecord<String, String> record : poll(consumer)) {
                    System.out.println(record.key() + " " + record.value());
                    found++;
                }
                consumer.commitSync();
            }
        }
    }

    /** The way to wait has changed with version 2, and the old one is gone since version 4. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) throws Exception {
        try {
            Method poll = KafkaConsumer.class.getMethod("poll", Duration.class);
            return (ConsumerRecords<String, String>) poll.invoke(consumer, Duration.ofMillis(200));
        } catch (NoSuchMethodException error) {
            Method poll = KafkaConsumer.class.getMethod("poll", long.class);
            return (ConsumerRecords<String, String>) poll.invoke(consumer, 200L);
        }
    }
}
