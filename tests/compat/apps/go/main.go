// Command clients uses Kafka as programs in Go do, with the client that its first argument names.
//
//	clients CLIENT produce BOOTSTRAP-SERVERS TOPIC COUNT CODEC
//	clients CLIENT consume BOOTSTRAP-SERVERS TOPIC GROUP
//	clients CLIENT copy    BOOTSTRAP-SERVERS SOURCE TARGET
//	clients CLIENT admin   BOOTSTRAP-SERVERS TOPIC
//
// Every line that it prints is one event in JSON. Record i has the key "key-i", the value "i" and a header "number" with "i".
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
)

type client struct {
	produce func(servers, topic string, count int, codec string) error
	consume func(servers, topic, group string) error
	copy    func(servers, source, target string) error
	admin   func(servers, topic string) error
}

var clients = map[string]client{
	"sarama":   {saramaProduce, saramaConsume, saramaCopy, saramaAdmin},
	"franz-go": {franzProduce, franzConsume, franzCopy, franzAdmin},
	"kafka-go": {produce: kafkaGoProduce, consume: kafkaGoConsume, admin: kafkaGoAdmin},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	used, command, rest := clients[arguments[0]], arguments[1], arguments[2:]
	switch command {
	case "produce":
		count, err := strconv.Atoi(rest[2])
		if err != nil {
			return err
		}
		return used.produce(rest[0], rest[1], count, rest[3])
	case "consume":
		return used.consume(rest[0], rest[1], rest[2])
	case "copy":
		return used.copy(rest[0], rest[1], rest[2])
	case "admin":
		return used.admin(rest[0], rest[1])
	}
	return fmt.Errorf("unknown command %q", command)
}

var printing sync.Mutex

func tell(event any) {
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

type record struct {
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Key       string            `json:"key"`
	Value     string            `json:"value"`
	Headers   map[string]string `json:"headers"`
}

type settings map[string]string

// administered is what the admin command tells of the topic that it has made, filled, changed and deleted.
type administered struct {
	Partitions    int      `json:"partitions"`
	Configs       settings `json:"configs"`
	EndOffsets    []int64  `json:"end_offsets"`
	Reassignments int      `json:"reassignments"`
	GroupOffsets  []int64  `json:"group_offsets"`
	GroupState    string   `json:"group_state"`
	Groups        []string `json:"groups"`
	Brokers       int      `json:"brokers"`
	IsDeleted     bool     `json:"is_deleted"`
}
