// testcontainers for Go, with the image in place of Confluent's.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/testcontainers/testcontainers-go/modules/kafka"
)

func main() {
	ctx := context.Background()
	container, err := kafka.Run(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	brokers, err := container.Brokers(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ADDRESS", brokers[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := container.Terminate(ctx); err != nil {
		log.Fatal(err)
	}
}
