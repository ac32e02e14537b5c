// A client of a state server by plain unary GetKvState, as a program in another language is.
//
// Arguments: HOST:PORT, full name of the method, file with a line "REQUEST TAB BEGINNING" for each
// key in look-up order, both in hex digits: the serialized request, and the beginning that the
// key's value has at every revision; length of the rest of a value. Commands on
// standard input, each answered by one JSON line:
//
//	loop IN_FLIGHT WARM_UP_S SECONDS: a closed loop over the keys
//	at_once COUNT: calls that are started together
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 5 {
		log.Fatalf("usage: %s HOST:PORT METHOD FILE TAIL_BYTES", os.Args[0])
	}
	address, method, file, tail := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	keys, err := readKeys(file, tail)
	if err != nil {
		log.Fatalf("cannot read the keys of %s: %v", file, err)
	}
	channel, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatalf("cannot connect to %s: %v", address, err)
	}
	defer channel.Close()
	client := &Client{channel: channel, method: method, keys: keys}
	say(map[string]any{"ready": true, "grpc": grpc.Version})
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		answer, err := obey(client, strings.Fields(commands.Text()))
		if err != nil {
			log.Fatalf("%s: %v", commands.Text(), err)
		}
		say(answer)
	}
}

func obey(client *Client, words []string) (any, error) {
	switch {
	case len(words) == 4 && words[0] == "loop":
		numbers := [3]float64{}
		for at, word := range words[1:] {
			number, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return nil, err
			}
			numbers[at] = number
		}
		return closedLoop(client, int(numbers[0]), seconds(numbers[1]), seconds(numbers[2]))
	case len(words) == 2 && words[0] == "at_once":
		count, err := strconv.Atoi(words[1])
		if err != nil {
			return nil, err
		}
		return atOnce(client, count), nil
	}
	return nil, fmt.Errorf("unknown command")
}

func readKeys(file, tailText string) ([]Key, error) {
	tail, err := strconv.Atoi(tailText)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var keys []Key
	for line := range strings.Lines(string(content)) {
		request, beginning, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		key := Key{tail: tail}
		if key.request, err = hex.DecodeString(request); err != nil {
			return nil, err
		}
		if key.beginning, err = hex.DecodeString(beginning); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("it is empty")
	}
	return keys, nil
}

func seconds(count float64) time.Duration {
	return time.Duration(count * float64(time.Second))
}

func say(answer any) {
	line, err := json.Marshal(answer)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(line))
}
