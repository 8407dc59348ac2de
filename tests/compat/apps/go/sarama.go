package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Return.Errors = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = time.Second
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	return config
}

func saramaProduce(servers, topic string, count int, codec string) error {
	config := saramaConfig()
	config.Producer.Compression = saramaCodecs[codec]
	producer, err := sarama.NewSyncProducer([]string{servers}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for number := range count {
		text := strconv.Itoa(number)
		messages = append(messages, &sarama.ProducerMessage{
			Topic: topic, Key: sarama.StringEncoder("key-" + text), Value: sarama.StringEncoder(text),
			Headers: []sarama.RecordHeader{{Key: []byte("number"), Value: []byte(text)}},
		})
	}
	if err := producer.SendMessages(messages); err != nil {
		return err
	}
	tell(map[string]int{"written": count})
	return nil
}

type saramaReader struct{}

func (saramaReader) Setup(session sarama.ConsumerGroupSession) error {
	for _, partitions := range session.Claims() {
		tell(map[string]any{"assigned": partitions})
	}
	return nil
}

func (saramaReader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (saramaReader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			headers := map[string]string{}
			for _, header := range message.Headers {
				headers[string(header.Key)] = string(header.Value)
			}
			tell(record{message.Partition, message.Offset, string(message.Key), string(message.Value), headers})
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func saramaConsume(servers, topic, group string) error {
	config := saramaConfig()
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	consumers, err := sarama.NewConsumerGroup([]string{servers}, group, config)
	if err != nil {
		return err
	}
	defer consumers.Close()
	for {
		// It gives up when the broker is away for some seconds; applications call it in a loop.
		if err := consumers.Consume(context.Background(), []string{topic}, saramaReader{}); err != nil {
			tell(map[string]string{"refused": err.Error()})
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// saramaCopier has a producer for each partition, as the examples of sarama have it.
type saramaCopier struct {
	target    string
	producers map[int32]sarama.SyncProducer
	cancel    context.CancelFunc
}

func (saramaCopier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaCopier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (copier saramaCopier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	metadata := sarama.NewConsumerGroupMetadataFromSession(session, "copies", nil)
	for number := 1; ; {
		batch := saramaBatch(session, claim)
		if batch == nil {
			return nil
		}
		for isCopied := false; !isCopied; number++ {
			isCopied = number%5 != 0
			if err := copier.copyOnce(batch, metadata, isCopied); err != nil {
				tell(map[string]string{"failed": err.Error()})
				// The outcome may be unknown: all begins again at the offsets that are committed.
				copier.cancel()
				return err
			}
		}
	}
}

func saramaBatch(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) []*sarama.ConsumerMessage {
	var batch []*sarama.ConsumerMessage
	var late <-chan time.Time
	for len(batch) < 50 {
		select {
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			batch = append(batch, message)
			late = time.After(20 * time.Millisecond)
		case <-late:
			return batch
		case <-session.Context().Done():
			return nil
		}
	}
	return batch
}

func (copier saramaCopier) copyOnce(
	batch []*sarama.ConsumerMessage, metadata *sarama.ConsumerGroupMetadata, commits bool,
) error {
	last := batch[len(batch)-1]
	producer := copier.producers[last.Partition]
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	var messages []*sarama.ProducerMessage
	for _, message := range batch {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: copier.target, Partition: message.Partition, Value: sarama.ByteEncoder(message.Value),
		})
	}
	if err := producer.SendMessages(messages); err != nil {
		return err
	}
	if err := producer.AddMessageToTxnWithGroupMetadata(last, metadata, nil); err != nil {
		return err
	}
	if !commits {
		tell(map[string]int{"aborted": len(batch)})
		return producer.AbortTxn()
	}
	if err := producer.CommitTxn(); err != nil {
		return err
	}
	tell(map[string]int{"committed": len(batch)})
	return nil
}

func saramaCopy(servers, source, target string) error {
	for {
		if err := saramaCopySession(servers, source, target); err != nil {
			tell(map[string]string{"again": err.Error()})
			time.Sleep(200 * time.Millisecond)
		}
	}
}

func saramaCopySession(servers, source, target string) error {
	config := saramaConfig()
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.Timeout = 10 * time.Second
	probe, err := sarama.NewClient([]string{servers}, config)
	if err != nil {
		return err
	}
	defer probe.Close()
	partitions, err := probe.Partitions(source)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.Background())
	defer cancel()
	copier := saramaCopier{target, map[int32]sarama.SyncProducer{}, cancel}
	for _, partition := range partitions {
		// Each has its own transactional id. It aborts what a predecessor has left before any offset is read.
		own := *config
		own.Producer.Transaction.ID = fmt.Sprintf("copier-%d", partition)
		producer, err := sarama.NewSyncProducer([]string{servers}, &own)
		if err != nil {
			return err
		}
		defer producer.Close()
		copier.producers[partition] = producer
	}
	consumers, err := sarama.NewConsumerGroup([]string{servers}, "copies", config)
	if err != nil {
		return err
	}
	defer consumers.Close()
	for running.Err() == nil {
		if err := consumers.Consume(running, []string{source}, copier); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

func saramaAdmin(servers, topic string) error {
	admin, err := sarama.NewClusterAdmin([]string{servers}, saramaConfig())
	if err != nil {
		return err
	}
	defer admin.Close()
	hour, twoHours := "3600000", "7200000"
	detail := &sarama.TopicDetail{
		NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &hour},
	}
	if err := admin.CreateTopic(topic, detail, false); err != nil {
		return err
	}
	if err := admin.CreatePartitions(topic, 3, nil, false); err != nil {
		return err
	}
	change := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms":   {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &twoHours},
		"cleanup.policy": {Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: pointer("compact")},
	}
	if err := admin.IncrementalAlterConfig(sarama.TopicResource, topic, change, false); err != nil {
		return err
	}
	if err := saramaProduce(servers, topic, 30, "zstd"); err != nil {
		return err
	}
	told, err := saramaDescribe(admin, topic)
	if err != nil {
		return err
	}
	if err := admin.DeleteTopic(topic); err != nil {
		return err
	}
	topics, err := admin.ListTopics()
	if err != nil {
		return err
	}
	_, isThere := topics[topic]
	told.IsDeleted = !isThere
	tell(told)
	return nil
}

func pointer(text string) *string { return &text }

func saramaDescribe(admin sarama.ClusterAdmin, topic string) (told administered, err error) {
	described, err := admin.DescribeTopics([]string{topic})
	if err != nil {
		return told, err
	}
	told.Partitions = len(described[0].Partitions)
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	if err != nil {
		return told, err
	}
	told.Configs = settings{}
	for _, entry := range entries {
		told.Configs[entry.Name] = entry.Value
	}
	numbers, wanted, marks := []int32{0, 1, 2}, map[int32]int64{}, map[int32]sarama.OffsetAndMetadata{}
	assignment := [][]int32{}
	for _, partition := range described[0].Partitions {
		wanted[partition.ID] = sarama.OffsetNewest
		marks[partition.ID] = sarama.OffsetAndMetadata{Offset: 5 + int64(partition.ID)}
		assignment = append(assignment, partition.Replicas)
	}
	ends, err := admin.ListOffsets(map[string]map[int32]int64{topic: wanted}, nil)
	if err != nil {
		return told, err
	}
	for _, number := range numbers {
		told.EndOffsets = append(told.EndOffsets, ends[topic][number].Offset)
	}
	if err := admin.AlterPartitionReassignments(topic, assignment); err != nil {
		return told, fmt.Errorf("reassigning: %w", err)
	}
	moving, err := admin.ListPartitionReassignments(topic, numbers)
	if err != nil {
		return told, fmt.Errorf("listing reassignments: %w", err)
	}
	told.Reassignments = len(moving[topic])
	if _, err := admin.AlterConsumerGroupOffsets("administered", map[string]map[int32]sarama.OffsetAndMetadata{topic: marks}, nil); err != nil {
		return told, err
	}
	offsets, err := admin.ListConsumerGroupOffsets("administered", map[string][]int32{topic: numbers})
	if err != nil {
		return told, err
	}
	for _, number := range numbers {
		told.GroupOffsets = append(told.GroupOffsets, offsets.GetBlock(topic, number).Offset)
	}
	return told, saramaDescribeCluster(admin, &told)
}

func saramaDescribeCluster(admin sarama.ClusterAdmin, told *administered) error {
	groups, err := admin.ListConsumerGroups()
	if err != nil {
		return err
	}
	for name := range groups {
		told.Groups = append(told.Groups, name)
	}
	sort.Strings(told.Groups)
	described, err := admin.DescribeConsumerGroups([]string{"administered"})
	if err != nil {
		return err
	}
	told.GroupState = described[0].State
	brokers, _, err := admin.DescribeCluster()
	if err != nil {
		return err
	}
	told.Brokers = len(brokers)
	return admin.DeleteConsumerGroup("administered")
}
