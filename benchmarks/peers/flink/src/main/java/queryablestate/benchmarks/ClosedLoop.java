package queryablestate.benchmarks;

import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

/** So many queries in flight, each asking anew as soon as it has its answer. */
final class ClosedLoop {
    /** What is asked and whether the answer to it is right. */
    interface Question {
        /** Completes with null when the answer to an item is right, with a complaint otherwise. */
        CompletableFuture<String> ask(int item);
    }

    private final Question question;
    private final int[] order;
    private final long beginNs;
    private final long endNs;
    private final AtomicInteger running;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();

    private ClosedLoop(Question question, int[] order, int inFlight, double warmUpS, double seconds) {
        this.question = question;
        this.order = order;
        this.running = new AtomicInteger(inFlight);
        this.beginNs = System.nanoTime() + (long) (warmUpS * 1e9);
        this.endNs = beginNs + (long) (seconds * 1e9);
    }

    /** Ascending latencies in ns of the answers given after the warm-up. */
    static long[] run(Question question, int[] order, int inFlight, double warmUpS, double seconds)
            throws Exception {
        ClosedLoop loop = new ClosedLoop(question, order, inFlight, warmUpS, seconds);
        Asking[] all = new Asking[inFlight];
        for (int number = 0; number < inFlight; number++) {
            all[number] = loop.new Asking((int) ((long) number * order.length / inFlight));
        }
        for (Asking one : all) {
            one.next();
        }
        loop.ended.get();
        long[] latencies = new long[Arrays.stream(all).mapToInt(one -> one.count).sum()];
        int filled = 0;
        for (Asking one : all) {
            System.arraycopy(one.latencies, 0, latencies, filled, one.count);
            filled += one.count;
        }
        Arrays.sort(latencies);
        return latencies;
    }

    /** One query in flight at a time; its calls follow one another, on whatever thread. */
    private final class Asking {
        private long[] latencies = new long[1024];
        private int count;
        private int position;

        Asking(int position) {
            this.position = position;
        }

        void next() {
            long asked = System.nanoTime();
            if (asked >= endNs) {
                if (running.decrementAndGet() == 0) {
                    ended.complete(null);
                }
                return;
            }
            int item = order[position];
            position = position + 1 == order.length ? 0 : position + 1;
            question.ask(item)
                    .whenComplete(
                            (complaint, failure) -> {
                                long answered = System.nanoTime();
                                if (failure != null) {
                                    ended.completeExceptionally(failure);
                                } else if (complaint != null) {
                                    ended.completeExceptionally(
                                            new IllegalStateException(complaint));
                                } else {
                                    keep(asked, answered);
                                    next();
                                }
                            });
        }

        private void keep(long asked, long answered) {
            if (answered < beginNs || answered >= endNs) {
                return;
            }
            if (count == latencies.length) {
                latencies = Arrays.copyOf(latencies, 2 * count);
            }
            latencies[count++] = answered - asked;
        }
    }
}
