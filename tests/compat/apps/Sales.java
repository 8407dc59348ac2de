import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Three results from orders, exactly once: each with its customer's name (a table), each with its payment (a second stream), and
 * the sum for each customer and ten seconds of event time. Every change of a sum is written, none is held back in a cache.
 *
 * <p>java Sales.java BOOTSTRAP-SERVERS STATE-DIRECTORY
 */
public class Sales {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "sales");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // A process that was killed is missed sooner than by default.
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 1000);
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 10000);

        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> customers = builder.table("customers");
        KStream<String, String> orders = builder.stream("orders");
        KStream<String, String> payments = builder.stream("payments");

        orders.join(customers, (order, name) -> name + " " + order).to("named");

        // Both streams get the number of the order as their key, through repartition topics.
        KStream<String, String> ordersByNumber = orders.selectKey((customer, order) -> order);
        KStream<String, String> paymentsByNumber = payments.selectKey((customer, order) -> order);
        ordersByNumber
                .join(paymentsByNumber, (order, payment) -> order,
                        JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMinutes(1), Duration.ofHours(1)))
                .to("paid");

        Materialized<String, String, WindowStore<Bytes, byte[]>> sums = Materialized.as("sums");
        orders.groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofHours(1)))
                .aggregate(() -> "0", (customer, order, sum) -> "" + (Long.parseLong(sum) + Long.parseLong(order)), sums)
                .toStream()
                .map((window, sum) -> KeyValue.pair(window.key() + "@" + window.window().start(), sum))
                .to("summed");

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((state, before) -> System.out.println(state));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }
}
