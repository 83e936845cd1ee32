// kfake in a process of its own: a cluster in memory whose addresses are its first line of output.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	brokers := flag.Int("brokers", 1, "how many brokers")
	login := flag.String("login", "", "MECHANISM:USER:PASSWORD of the one principal; empty: plaintext")
	flag.Parse()
	options := []kfake.Opt{kfake.NumBrokers(*brokers), kfake.Ports(make([]int, *brokers)...)}
	if *login != "" {
		words := strings.SplitN(*login, ":", 3)
		options = append(options, kfake.EnableSASL(), kfake.Superuser(words[0], words[1], words[2]))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
}
