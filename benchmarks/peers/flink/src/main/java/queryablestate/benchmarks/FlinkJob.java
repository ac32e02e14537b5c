package queryablestate.benchmarks;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.QueryableStateOptions;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * A MiniCluster whose only job keeps the last value of every key, queryable.
 *
 * <p>Arguments: backend (hashmap or rocksdb), local directory, port of the proxy, port to read lines
 * "key TAB value" from. Prints one JSON line once the job runs. Each line on standard input is a
 * number of elements; the answer follows once the job has that many in its state. The end of
 * standard input ends the process.
 */
public final class FlinkJob {
    static final String QUERYABLE_NAME = "benchmark";

    /** Elements in the state, counted by all tasks: they run in this process. */
    private static final AtomicLong APPLIED = new AtomicLong();

    private FlinkJob() {}

    static ValueStateDescriptor<String> descriptor() {
        return new ValueStateDescriptor<>(QUERYABLE_NAME, Types.STRING);
    }

    public static void main(String[] args) throws Exception {
        String backend = args[0];
        String directory = args[1];
        String proxyPort = args[2];
        int feedPort = Integer.parseInt(args[3]);

        Configuration settings =
                Configuration.fromMap(
                        Map.of(
                                "state.backend.type", backend,
                                "io.tmp.dirs", directory,
                                "taskmanager.numberOfTaskSlots", "2",
                                "rest.bind-port", "0",
                                "rest.port", "0"));
        settings.set(QueryableStateOptions.ENABLE_QUERYABLE_STATE_PROXY_SERVER, true);
        settings.set(QueryableStateOptions.PROXY_PORT_RANGE, proxyPort);
        settings.set(QueryableStateOptions.SERVER_PORT_RANGE, "0");

        MiniClusterConfiguration cluster =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(settings)
                        .setNumTaskManagers(1)
                        .setNumSlotsPerTaskManager(2)
                        .build();
        try (MiniCluster flink = new MiniCluster(cluster)) {
            flink.start();
            JobGraph graph = graph(settings, feedPort);
            flink.submitJob(graph).get();
            while (flink.getJobStatus(graph.getJobID()).get() != JobStatus.RUNNING) {
                Thread.sleep(20);
            }
            System.out.printf(
                    "{\"job_id\": \"%s\", \"version\": \"%s\", \"java\": \"%s\"}%n",
                    graph.getJobID(),
                    EnvironmentInformation.getVersion(),
                    System.getProperty("java.version"));
            answer();
        }
        System.exit(0);
    }

    private static JobGraph graph(Configuration settings, int feedPort) {
        StreamExecutionEnvironment stream =
                StreamExecutionEnvironment.getExecutionEnvironment(settings);
        stream.setParallelism(2);
        stream.socketTextStream(InetAddress.getLoopbackAddress().getHostAddress(), feedPort)
                .map(
                        line -> {
                            int tab = line.indexOf('\t');
                            return Tuple2.of(line.substring(0, tab), line.substring(tab + 1));
                        })
                .returns(Types.TUPLE(Types.STRING, Types.STRING))
                .setParallelism(1)
                .keyBy(pair -> pair.f0)
                .process(new LastValue())
                .sinkTo(new DiscardingSink<>());
        return stream.getStreamGraph().getJobGraph();
    }

    private static void answer() throws Exception {
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = commands.readLine()) != null; ) {
            long wanted = Long.parseLong(line.trim());
            while (APPLIED.get() < wanted) {
                Thread.sleep(1);
            }
            System.out.printf("{\"applied\": %d}%n", APPLIED.get());
        }
    }

    private static final class LastValue
            extends KeyedProcessFunction<String, Tuple2<String, String>, String> {
        private transient ValueState<String> state;

        @Override
        public void open(OpenContext context) {
            ValueStateDescriptor<String> descriptor = descriptor();
            descriptor.setQueryable(QUERYABLE_NAME);
            state = getRuntimeContext().getState(descriptor);
        }

        @Override
        public void processElement(
                Tuple2<String, String> pair, Context context, Collector<String> out)
                throws Exception {
            state.update(pair.f1);
            APPLIED.incrementAndGet();
        }
    }
}
