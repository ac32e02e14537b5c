package example;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonParseException;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import java.io.IOException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import queryablestate.v1.BatchGetKvStateRequest;
import queryablestate.v1.BatchGetKvStateResponse;
import queryablestate.v1.Error;
import queryablestate.v1.KeyResult;
import queryablestate.v1.QueryableStateGrpc;
import queryablestate.v1.Reason;
import queryablestate.v1.ScanKvStateRequest;
import queryablestate.v1.ScanKvStateResponse;

/**
 * Looks up keys of a state, and counts its keys with a scan, with plain gRPC.
 *
 * <p>Arguments: HOST:PORT of any proxy or state server of the job, STATE, KEY... A key is JSON of
 * the key's type; for strings the plain word works, too.
 */
public final class Example {
  /** The reason of a refused call, which servers send as metadata. */
  private static final Metadata.Key<Error> ERROR =
      Metadata.Key.of(
          "queryable-state-error-bin",
          ProtoUtils.metadataMarshaller(Error.getDefaultInstance()));

  /** gRPC retries calls that did not reach a server, and those refused while state moves. */
  private static final Map<String, ?> RETRIES =
      Map.of(
          "methodConfig",
          List.of(
              Map.of(
                  "name", List.of(Map.of("service", "queryable_state.v1.QueryableState")),
                  "waitForReady", true,
                  "retryPolicy",
                      Map.of(
                          "maxAttempts", 5.0,
                          "initialBackoff", "0.05s",
                          "maxBackoff", "1s",
                          "backoffMultiplier", 2.0,
                          "retryableStatusCodes", List.of("UNAVAILABLE")))));

  private final QueryableStateGrpc.QueryableStateBlockingStub queries;
  private final String state;

  private Example(QueryableStateGrpc.QueryableStateBlockingStub queries, String state) {
    this.queries = queries;
    this.state = state;
  }

  public static void main(String[] args) throws InterruptedException {
    if (args.length < 3) {
      System.err.println("usage: Example HOST:PORT STATE KEY...");
      System.exit(2);
    }
    ManagedChannel channel =
        NettyChannelBuilder.forTarget(args[0])
            .usePlaintext()
            .defaultServiceConfig(RETRIES)
            .enableRetry()
            .build();
    try {
      Example example = new Example(QueryableStateGrpc.newBlockingStub(channel), args[1]);
      example.lookUp(Arrays.asList(args).subList(2, args.length));
      example.scan();
    } catch (StatusRuntimeException failure) {
      System.err.println(describe(failure));
      System.exit(1);
    } finally {
      channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }
  }

  /** Prints the values of many keys, each with the age of the batch it was read from. */
  private void lookUp(List<String> words) {
    BatchGetKvStateResponse answer =
        queries
            .withDeadlineAfter(5, TimeUnit.SECONDS)
            .batchGetKvState(
                BatchGetKvStateRequest.newBuilder()
                    .setStateName(state)
                    .addAllKeysJson(words.stream().map(Example::asJson).toList())
                    .build());
    for (int i = 0; i < words.size(); i++) {
      KeyResult result = answer.getResults(i);
      if (result.getError().getReason() == Reason.UNKNOWN_KEY) {
        System.out.printf("%s: nothing is stored%n", words.get(i));
      } else if (result.hasError()) {
        Error error = result.getError();
        System.out.printf("%s: %s: %s%n", words.get(i), error.getReason(), error.getMessage());
      } else {
        double age = (System.currentTimeMillis() - result.getInfo().getCommitTimeMs()) / 1000.0;
        System.out.printf(
            "%s = %s (batch %d, %.0f s old)%n",
            words.get(i), result.getValueJson(), result.getInfo().getVersion(), age);
      }
    }
  }

  /** Counts all keys of a state, as of one committed batch. */
  private void scan() {
    // The whole scan; without a deadline it would wait for a server for ever.
    Iterator<ScanKvStateResponse> pages =
        queries
            .withDeadlineAfter(1, TimeUnit.MINUTES)
            .scanKvState(
                ScanKvStateRequest.newBuilder()
                    .setStateName(state)
                    .setJson(true)
                    .setKeysOnly(true)
                    .build());
    int keys = 0;
    while (pages.hasNext()) {
      ScanKvStateResponse page = pages.next();
      keys += page.getKeysCount();
      if (page.getLast()) {
        System.out.printf("scan: %d keys, complete: %b%n", keys, page.getComplete());
        return;
      }
    }
    throw new IllegalStateException("the scan has no last page");
  }

  private static String describe(StatusRuntimeException failure) {
    Metadata trailers = Status.trailersFromThrowable(failure);
    Error sent = trailers == null ? null : trailers.get(ERROR);
    return sent == null ? failure.getMessage() : sent.getReason() + ": " + sent.getMessage();
  }

  private static String asJson(String word) {
    try {
      new Gson().getAdapter(JsonElement.class).fromJson(word);
      return word;
    } catch (JsonParseException | IOException notJson) {
      return new Gson().toJson(word);
    }
  }
}
