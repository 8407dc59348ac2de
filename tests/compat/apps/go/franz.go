package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func franzProduce(servers, topic string, count int, codec string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(servers), kgo.ProducerBatchCompression(franzCodecs[codec]))
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for number := range count {
		text := strconv.Itoa(number)
		records = append(records, &kgo.Record{
			Topic: topic, Key: []byte("key-" + text), Value: []byte(text),
			Headers: []kgo.RecordHeader{{Key: "number", Value: []byte(text)}},
		})
	}
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		return err
	}
	tell(map[string]int{"written": count})
	return nil
}

func franzGroup(servers, topic, group string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(servers), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			for _, partitions := range assigned {
				tell(map[string]any{"assigned": partitions})
			}
		}),
	}
}

func franzConsume(servers, topic, group string) error {
	client, err := kgo.NewClient(append(franzGroup(servers, topic, group), kgo.DisableAutoCommit())...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(context.Background())
		fetches.EachRecord(func(read *kgo.Record) {
			headers := map[string]string{}
			for _, header := range read.Headers {
				headers[header.Key] = string(header.Value)
			}
			tell(record{read.Partition, read.Offset, string(read.Key), string(read.Value), headers})
		})
		if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
			tell(map[string]string{"refused": err.Error()})
		}
	}
}

func franzCopy(servers, source, target string) error {
	session, err := kgo.NewGroupTransactSession(append(franzGroup(servers, source, "copies"),
		kgo.TransactionalID("copier"), kgo.TransactionTimeout(10*time.Second), kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return err
	}
	defer session.Close()
	for number := 1; ; number++ {
		fetches := session.PollRecords(context.Background(), 50)
		if fetches.NumRecords() == 0 {
			number--
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		promise := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(read *kgo.Record) {
			copied := &kgo.Record{Topic: target, Partition: read.Partition, Value: read.Value}
			session.Produce(context.Background(), copied, promise.Promise())
		})
		wanted := promise.Err() == nil && number%5 != 0
		isCommitted, err := session.End(context.Background(), kgo.TransactionEndTry(wanted))
		if err != nil {
			return err
		}
		if isCommitted {
			tell(map[string]int{"committed": fetches.NumRecords()})
		} else {
			tell(map[string]int{"aborted": fetches.NumRecords()})
		}
	}
}

func franzAdmin(servers, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(servers))
	if err != nil {
		return err
	}
	defer client.Close()
	admin, background := kadm.NewClient(client), context.Background()
	created, err := admin.CreateTopic(background, 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("3600000")}, topic)
	if err != nil || created.Err != nil {
		return fmt.Errorf("creating: %w %w", err, created.Err)
	}
	if grown, err := admin.CreatePartitions(background, 1, topic); err != nil || grown.Error() != nil {
		return fmt.Errorf("growing: %w %w", err, grown.Error())
	}
	changes := []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("7200000")},
		{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")},
	}
	if changed, err := admin.AlterTopicConfigs(background, changes, topic); err != nil || changed[0].Err != nil {
		return fmt.Errorf("changing: %w %w", err, changed[0].Err)
	}
	if err := franzProduce(servers, topic, 30, "zstd"); err != nil {
		return err
	}
	told, err := franzDescribe(admin, topic)
	if err != nil {
		return err
	}
	deleted, err := admin.DeleteTopic(background, topic)
	if err != nil || deleted.Err != nil {
		return fmt.Errorf("deleting: %w %w", err, deleted.Err)
	}
	topics, err := admin.ListTopics(background)
	if err != nil {
		return err
	}
	told.IsDeleted = !topics.Has(topic)
	tell(told)
	return nil
}

func franzDescribe(admin *kadm.Client, topic string) (told administered, err error) {
	background := context.Background()
	metadata, err := admin.Metadata(background, topic)
	if err != nil {
		return told, err
	}
	told.Partitions, told.Brokers = len(metadata.Topics[topic].Partitions), len(metadata.Brokers)
	described, err := admin.DescribeTopicConfigs(background, topic)
	if err != nil || described[0].Err != nil {
		return told, fmt.Errorf("describing: %w %w", err, described[0].Err)
	}
	told.Configs = settings{}
	for _, entry := range described[0].Configs {
		told.Configs[entry.Key] = entry.MaybeValue()
	}
	ends, err := admin.ListEndOffsets(background, topic)
	if err != nil || ends.Error() != nil {
		return told, fmt.Errorf("listing ends: %w %w", err, ends.Error())
	}
	marks, wanted := kadm.Offsets{}, kadm.AlterPartitionAssignmentsReq{}
	for number := range int32(3) {
		end, _ := ends.Lookup(topic, number)
		told.EndOffsets = append(told.EndOffsets, end.Offset)
		marks.AddOffset(topic, number, 5+int64(number), -1)
		wanted.Assign(topic, number, metadata.Topics[topic].Partitions[number].Replicas)
	}
	if altered, err := admin.AlterPartitionAssignments(background, wanted); err != nil || altered.Error() != nil {
		return told, fmt.Errorf("reassigning: %w %w", err, altered.Error())
	}
	moving, err := admin.ListPartitionReassignments(background, metadata.Topics.TopicsSet())
	if err != nil {
		return told, fmt.Errorf("listing reassignments: %w", err)
	}
	told.Reassignments = len(moving)
	return told, franzDescribeGroup(admin, topic, marks, &told)
}

func franzDescribeGroup(admin *kadm.Client, topic string, marks kadm.Offsets, told *administered) error {
	background := context.Background()
	if err := admin.CommitAllOffsets(background, "administered", marks); err != nil {
		return err
	}
	offsets, err := admin.FetchOffsets(background, "administered")
	if err != nil {
		return err
	}
	for number := range int32(3) {
		found, _ := offsets.Lookup(topic, number)
		told.GroupOffsets = append(told.GroupOffsets, found.At)
	}
	groups, err := admin.ListGroups(background)
	if err != nil {
		return err
	}
	told.Groups = groups.Groups()
	described, err := admin.DescribeGroups(background, "administered")
	if err != nil {
		return err
	}
	told.GroupState = described["administered"].State
	deleted, err := admin.DeleteGroup(background, "administered")
	if err != nil {
		return err
	}
	return deleted.Err
}
