// A producer of franz-go that writes numbered values, in transactions of two with a transactional
// id, until its standard input ends. It prints each value that was written, and then the error that
// the client gave to the application, if there was one.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pause   = 10 * time.Millisecond
	atATime = 2
)

func main() {
	servers, topic, name, transactional := os.Args[1], os.Args[2], os.Args[3], os.Args[4] == "transactional"
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(servers, ",")...), kgo.DefaultProduceTopic(topic)}
	if transactional {
		options = append(options, kgo.TransactionalID(name))
	}
	client, err := kgo.NewClient(options...)
	if err == nil {
		err = write(client, name, transactional)
		client.Close()
	}
	if err != nil {
		fmt.Println("error:", err)
	}
}

func write(client *kgo.Client, name string, transactional bool) error {
	var ends atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ends.Store(true)
	}()
	out := bufio.NewWriter(os.Stdout)
	for number := 0; !ends.Load(); number += atATime {
		records := make([]*kgo.Record, 0, atATime)
		for i := range atATime {
			records = append(records, kgo.StringRecord(fmt.Sprintf("%s-%06d", name, number+i)))
		}
		if err := send(client, records, transactional); err != nil {
			return err
		}
		for _, record := range records {
			fmt.Fprintln(out, string(record.Value))
		}
		if err := out.Flush(); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return nil
}

func send(client *kgo.Client, records []*kgo.Record, transactional bool) error {
	ctx := context.Background()
	if !transactional {
		return client.ProduceSync(ctx, records...).FirstErr()
	}
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}
