package queryablestate.benchmarks;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.queryablestate.client.QueryableStateClient;
import org.apache.flink.queryablestate.exceptions.UnknownKeyOrNamespaceException;

/**
 * The client process of Flink, as the asyncio process is that of the other peers.
 *
 * <p>Arguments: port of the proxy, job id, file with a line "key TAB beginning of every value TAB
 * missing key" for each key, in look-up order; length of the rest of a value after its
 * beginning. Commands on standard input, each answered by one JSON line:
 *
 * <ul>
 *   <li>{@code hits IN_FLIGHT WARM_UP_S SECONDS}: a closed loop over the keys
 *   <li>{@code misses IN_FLIGHT WARM_UP_S SECONDS}: the same over missing keys
 *   <li>{@code check FILE}: checks that every key has the value of its line
 * </ul>
 */
public final class FlinkClient {
    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final QueryableStateClient client;
    private final JobID job;
    private final ValueStateDescriptor<String> descriptor = FlinkJob.descriptor();
    private final String[] keys;
    private final String[] missing;
    private final String[] beginnings;
    private final int tail;
    private final int[] order;

    private FlinkClient(QueryableStateClient client, JobID job, List<String> lines, int tail) {
        this.client = client;
        this.job = job;
        this.tail = tail;
        this.keys = lines.stream().map(line -> line.split("\t")[0]).toArray(String[]::new);
        this.beginnings = lines.stream().map(line -> line.split("\t")[1]).toArray(String[]::new);
        this.missing = lines.stream().map(line -> line.split("\t")[2]).toArray(String[]::new);
        this.order = IntStream.range(0, keys.length).toArray();
    }

    public static void main(String[] args) throws Exception {
        Locale.setDefault(Locale.ROOT);
        int port = Integer.parseInt(args[0]);
        List<String> lines = Files.readAllLines(Path.of(args[2]));
        QueryableStateClient client = new QueryableStateClient("127.0.0.1", port);
        FlinkClient flink =
                new FlinkClient(
                        client, JobID.fromHexString(args[1]), lines, Integer.parseInt(args[3]));
        System.out.println("{\"ready\": true}");
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = commands.readLine()) != null; ) {
            System.out.println(flink.obey(line.trim().split(" ")));
        }
        client.shutdownAndWait();
        System.exit(0);
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "hits":
                return loop(this::hit, words);
            case "misses":
                return loop(this::miss, words);
            case "check":
                return check(Files.readAllLines(Path.of(words[1])));
            default:
                throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }

    private String loop(ClosedLoop.Operation operation, String[] words) throws Exception {
        double warmUpS = Double.parseDouble(words[2]);
        double seconds = Double.parseDouble(words[3]);
        long cpuNs = PROCESS.getProcessCpuTime();
        long[] ns = ClosedLoop.run(operation, order, Integer.parseInt(words[1]), warmUpS, seconds);
        cpuNs = PROCESS.getProcessCpuTime() - cpuNs;
        // Answers of the warm-up are not counted, so the share of its time is subtracted.
        double cpuUs = cpuNs / 1e3 * seconds / (seconds + warmUpS) / Math.max(1, ns.length);
        return String.format(
                "{\"answers\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"cpu_us\": %.2f}",
                ns.length, at(ns, 0.50) / 1e3, at(ns, 0.99) / 1e3, at(ns, 0.999) / 1e3, cpuUs);
    }

    private static long at(long[] ascending, double share) {
        return ascending.length == 0
                ? 0
                : ascending[Math.min(ascending.length - 1, (int) (share * ascending.length))];
    }

    private CompletableFuture<ValueState<String>> get(String key) {
        return client.getKvState(job, FlinkJob.QUERYABLE_NAME, key, Types.STRING, descriptor);
    }

    private CompletableFuture<String> hit(int number) {
        return get(keys[number])
                .thenApply(
                        state -> {
                            String value = valueOf(state);
                            String beginning = beginnings[number];
                            return value != null
                                            && value.length() == beginning.length() + tail
                                            && value.startsWith(beginning)
                                    ? null
                                    : keys[number] + " is " + value;
                        });
    }

    private CompletableFuture<String> miss(int number) {
        return get(missing[number])
                .handle(
                        (state, failure) ->
                                isUnknownKey(failure)
                                        ? null
                                        : missing[number] + " exists or its look-up failed: " + failure);
    }

    private String check(List<String> values) throws Exception {
        int wrong = 0;
        String example = "";
        for (int number = 0; number < keys.length; number++) {
            String value = valueOf(get(keys[number]).get());
            if (!values.get(number).equals(value)) {
                wrong++;
                example = keys[number] + " is " + value + ", not " + values.get(number);
            }
        }
        return String.format("{\"wrong\": %d, \"example\": \"%s\"}", wrong, example);
    }

    private static String valueOf(ValueState<String> state) {
        try {
            return state.value();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    /** The server sends its exception as a stack trace; a cause or a message names the class. */
    private static boolean isUnknownKey(Throwable failure) {
        for (Throwable each = failure; each != null; each = each.getCause()) {
            if (each instanceof UnknownKeyOrNamespaceException
                    || String.valueOf(each.getMessage())
                            .contains(UnknownKeyOrNamespaceException.class.getName())) {
                return true;
            }
        }
        return false;
    }
}
