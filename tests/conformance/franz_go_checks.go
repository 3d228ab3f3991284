// What is tried with franz-go: one feature against the broker at an address. Exits 1 and says why if it fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const count = 100

var compressions = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func main() {
	address, feature, compression := os.Args[1], os.Args[2], os.Args[3]
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	topic := fmt.Sprintf("franz-%d", time.Now().UnixNano())
	checks := map[string]func(context.Context, string, string, kgo.CompressionCodec) error{
		"produce and consume": produceAndConsume, "groups": groups, "transactions": transactions,
	}
	if err := checks[feature](ctx, address, topic, compressions[compression]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(address, topic string, options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options, kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation())
	return kgo.NewClient(options...)
}

func produce(ctx context.Context, cl *kgo.Client) error {
	for number := range count {
		if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(number))).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	return nil
}

// consume reads until it has `wanted` values that differ.
func consume(ctx context.Context, cl *kgo.Client, wanted int) error {
	seen := map[string]bool{}
	for len(seen) < wanted {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d messages came: %w", len(seen), wanted, ctx.Err())
		}
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("fetch: %w", failed.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) { seen[string(record.Value)] = true })
	}
	return nil
}

func produceAndConsume(ctx context.Context, address, topic string, codec kgo.CompressionCodec) error {
	cl, err := client(address, topic, kgo.ProducerBatchCompression(codec), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := produce(ctx, cl); err != nil {
		return err
	}
	return consume(ctx, cl, count)
}

func groups(ctx context.Context, address, topic string, codec kgo.CompressionCodec) error {
	group := []kgo.Opt{kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	first, err := client(address, topic, group...)
	if err != nil {
		return err
	}
	if err := produce(ctx, first); err != nil {
		return err
	}
	if err := consume(ctx, first, count); err != nil {
		return err
	}
	if err := first.CommitUncommittedOffsets(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	first.Close()
	second, err := client(address, topic, group...)
	if err != nil {
		return err
	}
	defer second.Close()
	if err := second.ProduceSync(ctx, kgo.StringRecord("after")).FirstErr(); err != nil {
		return err
	}
	for {
		fetches := second.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, record := range fetches.Records() {
			if string(record.Value) != "after" {
				return errors.New("a message came again that was committed")
			}
			return nil
		}
	}
}

func transactions(ctx context.Context, address, topic string, codec kgo.CompressionCodec) error {
	if err := seed(ctx, address, topic); err != nil {
		return err
	}
	out := topic + "-out"
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation(),
		kgo.DefaultProduceTopic(out), kgo.TransactionalID(topic), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequireStableFetchOffsets())
	if err != nil {
		return err
	}
	defer session.Close()
	for done := 0; done < count; {
		fetches := session.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d messages came: %w", done, count, ctx.Err())
		}
		if err := session.Begin(); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		for _, record := range fetches.Records() {
			session.Produce(ctx, &kgo.Record{Topic: out, Value: record.Value}, nil)
			done++
		}
		if committed, err := session.End(ctx, kgo.TryCommit); err != nil || !committed {
			return fmt.Errorf("end: %v, committed %v", err, committed)
		}
	}
	reader, err := client(address, out, kgo.ConsumeTopics(out), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer reader.Close()
	return consume(ctx, reader, count)
}

func seed(ctx context.Context, address, topic string) error {
	cl, err := client(address, topic)
	if err != nil {
		return err
	}
	defer cl.Close()
	return produce(ctx, cl)
}
