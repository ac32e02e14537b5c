package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	callTimeout = 60 * time.Second

	// Fields of queryable_state.v1: GetKvStateResponse.records, Records.values.
	recordsField = 2
	valuesField  = 2
)

// Key is the request of one key and the expected beginning of its value.
type Key struct {
	request   []byte
	beginning []byte
	tail      int // bytes of the value after its beginning
}

// Client looks up keys over one channel; it is safe for concurrent use.
type Client struct {
	channel *grpc.ClientConn
	method  string
	keys    []Key
}

// call looks up one key and checks the answer.
func (client *Client) call(number int) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	key := &client.keys[number]
	var response []byte
	err := client.channel.Invoke(
		ctx, client.method, key.request, &response, grpc.ForceCodec(serialized{}))
	if err != nil {
		return err
	}
	value, err := field(response, recordsField)
	if err == nil {
		value, err = field(value, valuesField)
	}
	if err != nil {
		return fmt.Errorf("wrong answer %x: %w", response, err)
	}
	if len(value) != len(key.beginning)+key.tail || !bytes.HasPrefix(value, key.beginning) {
		return fmt.Errorf("wrong value %x, expected beginning %x", value, key.beginning)
	}
	return nil
}

// field returns the first field with this number (a message or bytes) of a serialized message.
func field(message []byte, wanted protowire.Number) ([]byte, error) {
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return nil, protowire.ParseError(length)
		}
		message = message[length:]
		if number == wanted && kind == protowire.BytesType {
			content, length := protowire.ConsumeBytes(message)
			return content, protowire.ParseError(min(length, 0))
		}
		if length = protowire.ConsumeFieldValue(number, kind, message); length < 0 {
			return nil, protowire.ParseError(length)
		}
		message = message[length:]
	}
	return nil, fmt.Errorf("no field %d", wanted)
}

// serialized is the codec of messages that are already bytes.
type serialized struct{}

func (serialized) Name() string { return "proto" }

func (serialized) Marshal(message any) ([]byte, error) { return message.([]byte), nil }

func (serialized) Unmarshal(content []byte, message any) error {
	*message.(*[]byte) = content
	return nil
}
