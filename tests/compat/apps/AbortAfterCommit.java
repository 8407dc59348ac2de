import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Commits a record and at once begins, writes and aborts the next transaction, again and again: the second one begins while
 * the markers of the first are still being written. Prints a line for every round, and what went wrong in it if anything did.
 *
 * <p>The record to abort is flushed, so that the broker sees the transaction. Without that the client sometimes keeps the record and
 * sends it in one batch with the first record of the next transaction, which no broker can notice.
 *
 * <p>java AbortAfterCommit.java BOOTSTRAP-SERVERS TOPIC ROUNDS
 */
public class AbortAfterCommit {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", "aborts-after-commits");
        int rounds = Integer.parseInt(arguments[2]);
        KafkaProducer<String, String> producer = begun(settings);
        for (int round = 0; round < rounds; round++) {
            try {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(arguments[1], 0, null, "committed-" + round));
                producer.commitTransaction();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(arguments[1], 0, null, "aborted-" + round));
                producer.flush();
                producer.abortTransaction();
                System.out.println("done");
            } catch (KafkaException error) {
                System.out.println("failed: " + error);
                producer.close();
                producer = begun(settings);
            }
        }
        producer.close();
    }

    private static KafkaProducer<String, String> begun(Properties settings) {
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }
}
