package queryablestate.benchmarks;

import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

/** A fixed number of queries in flight, each followed at once by the next. */
final class ClosedLoop {
    /** One query and the check of its answer. */
    interface Operation {
        /** Completes with null if the answer to an item is right, else with a complaint. */
        CompletableFuture<String> run(int item);
    }

    private final Operation operation;
    private final int[] order;
    private final long beginNs;
    private final long endNs;
    private final AtomicInteger running;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();

    private ClosedLoop(Operation operation, int[] order, int inFlight, double warmUpS, double seconds) {
        this.operation = operation;
        this.order = order;
        this.running = new AtomicInteger(inFlight);
        this.beginNs = System.nanoTime() + (long) (warmUpS * 1e9);
        this.endNs = beginNs + (long) (seconds * 1e9);
    }

    /** Ascending latencies in ns of the answers given after the warm-up. */
    static long[] run(Operation operation, int[] order, int inFlight, double warmUpS, double seconds)
            throws Exception {
        ClosedLoop loop = new ClosedLoop(operation, order, inFlight, warmUpS, seconds);
        Slot[] all = new Slot[inFlight];
        for (int number = 0; number < inFlight; number++) {
            all[number] = loop.new Slot((int) ((long) number * order.length / inFlight));
        }
        for (Slot one : all) {
            one.next();
        }
        loop.ended.get();
        long[] latencies = new long[Arrays.stream(all).mapToInt(one -> one.count).sum()];
        int filled = 0;
        for (Slot one : all) {
            System.arraycopy(one.latencies, 0, latencies, filled, one.count);
            filled += one.count;
        }
        Arrays.sort(latencies);
        return latencies;
    }

    /** One query in flight at a time; its calls never overlap, but may run on any thread. */
    private final class Slot {
        private long[] latencies = new long[1024];
        private int count;
        private int position;

        Slot(int position) {
            this.position = position;
        }

        void next() {
            long sent = System.nanoTime();
            if (sent >= endNs) {
                if (running.decrementAndGet() == 0) {
                    ended.complete(null);
                }
                return;
            }
            int item = order[position];
            position = position + 1 == order.length ? 0 : position + 1;
            operation.run(item)
                    .whenComplete(
                            (complaint, failure) -> {
                                long answered = System.nanoTime();
                                if (failure != null) {
                                    ended.completeExceptionally(failure);
                                } else if (complaint != null) {
                                    ended.completeExceptionally(
                                            new IllegalStateException(complaint));
                                } else {
                                    keep(sent, answered);
                                    next();
                                }
                            });
        }

        private void keep(long sent, long answered) {
            if (answered < beginNs || answered >= endNs) {
                return;
            }
            if (count == latencies.length) {
                latencies = Arrays.copyOf(latencies, 2 * count);
            }
            latencies[count++] = answered - sent;
        }
    }
}
