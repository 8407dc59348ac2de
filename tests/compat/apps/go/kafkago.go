package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

var kafkaGoCodecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func kafkaGoProduce(servers, topic string, count int, codec string) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(servers), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: kafkaGoCodecs[codec],
		Balancer: &kafka.RoundRobin{}, BatchTimeout: 10 * time.Millisecond,
	}
	defer writer.Close()
	var messages []kafka.Message
	for number := range count {
		text := strconv.Itoa(number)
		messages = append(messages, kafka.Message{
			Key: []byte("key-" + text), Value: []byte(text), Headers: []kafka.Header{{Key: "number", Value: []byte(text)}},
		})
	}
	if err := writer.WriteMessages(context.Background(), messages...); err != nil {
		return err
	}
	tell(map[string]int{"written": count})
	return nil
}

func kafkaGoConsume(servers, topic, group string) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{servers}, Topic: topic, GroupID: group, StartOffset: kafka.FirstOffset,
		SessionTimeout: 6 * time.Second, HeartbeatInterval: time.Second, IsolationLevel: kafka.ReadCommitted,
		MaxWait: 200 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond,
		ErrorLogger: kafka.LoggerFunc(func(text string, values ...any) {
			tell(map[string]string{"refused": fmt.Sprintf(text, values...)})
		}),
	})
	defer reader.Close()
	for {
		message, err := reader.FetchMessage(context.Background())
		if err != nil {
			return err
		}
		headers := map[string]string{}
		for _, header := range message.Headers {
			headers[header.Key] = string(header.Value)
		}
		tell(record{int32(message.Partition), message.Offset, string(message.Key), string(message.Value), headers})
		if err := reader.CommitMessages(context.Background(), message); err != nil {
			tell(map[string]string{"refused": err.Error()})
		}
	}
}

// kafkaGoClient has a transport of its own: one that is shared answers from metadata that may be seconds old.
func kafkaGoClient(servers string) *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(servers), Timeout: 30 * time.Second, Transport: &kafka.Transport{}}
}

func kafkaGoAdmin(servers, topic string) error {
	client, background := kafkaGoClient(servers), context.Background()
	created, err := client.CreateTopics(background, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: topic, NumPartitions: 2, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "3600000"}},
	}}})
	if err != nil || created.Errors[topic] != nil {
		return fmt.Errorf("creating: %w %w", err, created.Errors[topic])
	}
	grown, err := client.CreatePartitions(background, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 3}},
	})
	if err != nil || grown.Errors[topic] != nil {
		return fmt.Errorf("growing: %w %w", err, grown.Errors[topic])
	}
	changed, err := client.IncrementalAlterConfigs(background, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{
				{Name: "retention.ms", Value: "7200000", ConfigOperation: kafka.ConfigOperationSet},
				{Name: "cleanup.policy", Value: "compact", ConfigOperation: kafka.ConfigOperationAppend},
			},
		}},
	})
	if err != nil || changed.Resources[0].Error != nil {
		return fmt.Errorf("changing: %w %w", err, changed.Resources[0].Error)
	}
	if err := kafkaGoProduce(servers, topic, 30, "zstd"); err != nil {
		return err
	}
	told, err := kafkaGoDescribe(kafkaGoClient(servers), topic)
	if err != nil {
		return err
	}
	deleted, err := client.DeleteTopics(background, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil || deleted.Errors[topic] != nil {
		return fmt.Errorf("deleting: %w %w", err, deleted.Errors[topic])
	}
	metadata, err := kafkaGoClient(servers).Metadata(background, &kafka.MetadataRequest{})
	if err != nil {
		return err
	}
	told.IsDeleted = true
	for _, found := range metadata.Topics {
		told.IsDeleted = told.IsDeleted && found.Name != topic
	}
	tell(told)
	return nil
}

func kafkaGoDescribe(client *kafka.Client, topic string) (told administered, err error) {
	background := context.Background()
	metadata, err := client.Metadata(background, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return told, err
	}
	told.Partitions, told.Brokers = len(metadata.Topics[0].Partitions), len(metadata.Brokers)
	described, err := client.DescribeConfigs(background, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}},
	})
	if err != nil || described.Resources[0].Error != nil {
		return told, fmt.Errorf("describing: %w", err)
	}
	told.Configs = settings{}
	for _, entry := range described.Resources[0].ConfigEntries {
		told.Configs[entry.ConfigName] = entry.ConfigValue
	}
	var asked []kafka.OffsetRequest
	var marks []kafka.OffsetCommit
	var same []kafka.AlterPartitionReassignmentsRequestAssignment
	for number := range 3 {
		asked = append(asked, kafka.LastOffsetOf(number))
		marks = append(marks, kafka.OffsetCommit{Partition: number, Offset: int64(5 + number)})
		same = append(same, kafka.AlterPartitionReassignmentsRequestAssignment{
			PartitionID: number, BrokerIDs: []int{metadata.Topics[0].Partitions[0].Leader.ID},
		})
	}
	ends, err := client.ListOffsets(background, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: asked}})
	if err != nil {
		return told, err
	}
	told.EndOffsets = make([]int64, 3)
	for _, end := range ends.Topics[topic] {
		told.EndOffsets[end.Partition] = end.LastOffset
	}
	altered, err := client.AlterPartitionReassignments(background, &kafka.AlterPartitionReassignmentsRequest{
		Topic: topic, Assignments: same, Timeout: 10 * time.Second,
	})
	if err != nil || altered.Error != nil {
		return told, fmt.Errorf("reassigning: %w", err)
	}
	moving, err := client.ListPartitionReassignments(background, &kafka.ListPartitionReassignmentsRequest{
		Topics:  map[string]kafka.ListPartitionReassignmentsRequestTopic{topic: {PartitionIndexes: []int{0, 1, 2}}},
		Timeout: 10 * time.Second,
	})
	if err != nil || moving.Error != nil {
		return told, fmt.Errorf("listing reassignments: %w", err)
	}
	told.Reassignments = len(moving.Topics)
	return told, kafkaGoDescribeGroup(client, topic, marks, &told)
}

func kafkaGoDescribeGroup(client *kafka.Client, topic string, marks []kafka.OffsetCommit, told *administered) error {
	background := context.Background()
	if _, err := client.OffsetCommit(background, &kafka.OffsetCommitRequest{
		GroupID: "administered", GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: marks},
	}); err != nil {
		return err
	}
	offsets, err := client.OffsetFetch(background, &kafka.OffsetFetchRequest{
		GroupID: "administered", Topics: map[string][]int{topic: {0, 1, 2}},
	})
	if err != nil {
		return err
	}
	told.GroupOffsets = make([]int64, 3)
	for _, found := range offsets.Topics[topic] {
		told.GroupOffsets[found.Partition] = found.CommittedOffset
	}
	groups, err := client.ListGroups(background, &kafka.ListGroupsRequest{})
	if err != nil {
		return err
	}
	for _, group := range groups.Groups {
		told.Groups = append(told.Groups, group.GroupID)
	}
	described, err := client.DescribeGroups(background, &kafka.DescribeGroupsRequest{GroupIDs: []string{"administered"}})
	if err != nil {
		return err
	}
	told.GroupState = described.Groups[0].GroupState
	deleted, err := client.DeleteGroups(background, &kafka.DeleteGroupsRequest{GroupIDs: []string{"administered"}})
	if err != nil {
		return err
	}
	return deleted.Errors["administered"]
}
