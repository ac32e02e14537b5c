// Command example looks up keys of a state, and counts its keys with a scan, with plain gRPC:
//
//	example HOST:PORT STATE KEY...
//
// HOST:PORT is any proxy or state server of the job. A KEY is JSON of the key's type; for strings
// the plain word works, too.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "queryablestate/example/gen/queryable_state/v1"
)

// gRPC retries calls that did not reach a server, and those that a server refused while state moves.
const retries = `{"methodConfig": [{
	"name": [{"service": "queryable_state.v1.QueryableState"}],
	"waitForReady": true,
	"retryPolicy": {
		"maxAttempts": 5, "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["UNAVAILABLE"]
	}
}]}`

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: example HOST:PORT STATE KEY...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, describe(err))
		os.Exit(1)
	}
}

func run(address, state string, words []string) error {
	connection, err := grpc.NewClient(
		address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(retries),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	client := pb.NewQueryableStateClient(connection)
	if err := lookUp(client, state, words); err != nil {
		return err
	}
	return scan(client, state)
}

// lookUp prints the values of many keys, each with the age of the batch it was read from.
func lookUp(client pb.QueryableStateClient, state string, words []string) error {
	keys := make([]string, len(words))
	for i, word := range words {
		keys[i] = asJSON(word)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var trailer metadata.MD
	answer, err := client.BatchGetKvState(
		ctx, &pb.BatchGetKvStateRequest{StateName: state, KeysJson: keys}, grpc.Trailer(&trailer))
	if err != nil {
		return refusal(err, trailer)
	}
	for i, result := range answer.Results {
		switch failure := result.Error; {
		case failure.GetReason() == pb.Reason_UNKNOWN_KEY:
			fmt.Printf("%s: nothing is stored\n", words[i])
		case failure != nil:
			fmt.Printf("%s: %s: %s\n", words[i], failure.Reason, failure.Message)
		default:
			committed := time.UnixMilli(result.Info.CommitTimeMs)
			fmt.Printf("%s = %s (batch %d, %.0f s old)\n",
				words[i], result.ValueJson, result.Info.Version, time.Since(committed).Seconds())
		}
	}
	return nil
}

// scan counts all keys of a state, as of one committed batch.
func scan(client pb.QueryableStateClient, state string) error {
	// The whole scan; without a deadline it would wait for a server for ever.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream, err := client.ScanKvState(
		ctx, &pb.ScanKvStateRequest{StateName: state, Json: true, KeysOnly: true})
	if err != nil {
		return err
	}
	keys := 0
	for {
		page, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the scan has no last page")
		}
		if err != nil {
			return refusal(err, stream.Trailer())
		}
		keys += len(page.Keys)
		if page.Last {
			fmt.Printf("scan: %d keys, complete: %t\n", keys, page.Complete)
			return nil
		}
	}
}

// Refused is an error with the reason of a server.
type Refused struct {
	Sent  *pb.Error
	cause error
}

func (r Refused) Error() string { return fmt.Sprintf("%s: %s", r.Sent.Reason, r.Sent.Message) }
func (r Refused) Unwrap() error { return r.cause }

// refusal returns a call's error with the reason that the server sent as metadata, if it did.
func refusal(err error, trailer metadata.MD) error {
	sent := trailer.Get("queryable-state-error-bin")
	if len(sent) == 0 {
		return err
	}
	var found pb.Error
	if proto.Unmarshal([]byte(sent[0]), &found) != nil {
		return err
	}
	return Refused{&found, err}
}

func describe(err error) string {
	var refused Refused
	if errors.As(err, &refused) && refused.Sent.RetryAfterMs > 0 {
		return fmt.Sprintf("%v; retry after %d ms", refused, refused.Sent.RetryAfterMs)
	}
	return err.Error()
}

func asJSON(word string) string {
	if json.Valid([]byte(word)) {
		return word
	}
	quoted, _ := json.Marshal(word)
	return string(quoted)
}
