// Members of a share group with franz-go's client; each journals what it sees, then acts.
//
// Arguments: bootstrap servers, group, topic, fields of a whole row, ms to hold what was polled,
// directory of the journals, names of the members. They run until SIGTERM.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollRecords    = 50
	flushTimeout   = 20 * time.Second
	clockMonotonic = 1
)

// nowMs returns CLOCK_MONOTONIC, which all processes of a machine share.
func nowMs() float64 {
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&at)), 0)
	return float64(at.Sec)*1e3 + float64(at.Nsec)/1e6
}

type journal struct {
	file *os.File
	who  string
}

func (j *journal) write(event string, fields map[string]any) {
	line := map[string]any{"t": nowMs(), "w": j.who, "e": event}
	for name, value := range fields {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = j.file.Write(append(text, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type place struct {
	partition string
	kind      string
}

// member collects what it acknowledged, and what brokers said of it by partition, until a flush.
type member struct {
	journal journal
	fields  int
	hold    time.Duration
	sent    map[place][]int64

	mu      sync.Mutex
	results map[string][]error
}

func (m *member) told(_ *kgo.Client, results kgo.ShareAckResults) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, each := range results {
		name := fmt.Sprintf("%s/%d", each.Topic, each.Partition)
		m.results[name] = append(m.results[name], each.Err)
	}
}

func (m *member) poll(ctx context.Context, client *kgo.Client) bool {
	fetches := client.PollRecords(ctx, pollRecords)
	fetches.EachError(func(_ string, _ int32, err error) {
		if ctx.Err() == nil {
			m.journal.write("trouble", map[string]any{"text": err.Error()})
		}
	})
	seen := map[string][][3]int64{}
	records := fetches.Records()
	for _, each := range records {
		name := fmt.Sprintf("%s/%d", each.Topic, each.Partition)
		seen[name] = append(seen[name], [3]int64{each.Offset, each.Offset, int64(each.DeliveryCount())})
	}
	for name, ranges := range seen {
		m.journal.write("delivered", map[string]any{"p": name, "le": -1, "r": ranges})
	}
	if len(records) > 0 {
		time.Sleep(m.hold)
	}
	for _, each := range records {
		status, kind := kgo.AckAccept, "accept"
		if bytes.Count(each.Value, []byte{','})+1 != m.fields {
			status, kind = kgo.AckReject, "reject"
		}
		each.Ack(status)
		where := place{fmt.Sprintf("%s/%d", each.Topic, each.Partition), kind}
		m.sent[where] = append(m.sent[where], each.Offset)
	}
	return len(records) > 0
}

// flush waits for all answers; a partition of which one is an error has nothing confirmed.
func (m *member) flush(client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	flushed := client.FlushAcks(ctx)
	m.mu.Lock()
	results := m.results
	m.results = map[string][]error{}
	m.mu.Unlock()
	for where, offsets := range m.sent {
		var failed any
		if flushed != nil {
			failed = flushed.Error()
		} else if len(results[where.partition]) == 0 {
			failed = "no answer"
		}
		for _, err := range results[where.partition] {
			if err != nil {
				failed = err.Error()
			}
		}
		slices.Sort(offsets)
		var ranges [][2]int64
		for _, each := range offsets {
			if last := len(ranges) - 1; last >= 0 && ranges[last][1] >= each-1 {
				ranges[last][1] = each
			} else {
				ranges = append(ranges, [2]int64{each, each})
			}
		}
		m.journal.write("acknowledged", map[string]any{
			"p": where.partition, "k": where.kind, "r": ranges, "error": failed,
		})
	}
	m.sent = map[place][]int64{}
}

func (m *member) run(ctx context.Context, arguments []string) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(arguments[0], ",")...),
		kgo.ShareGroup(arguments[1]),
		kgo.ConsumeTopics(arguments[2]),
		kgo.ClientID(m.journal.who),
		kgo.ShareMaxRecords(pollRecords),
		kgo.ShareAckCallback(m.told),
	)
	if err != nil {
		return err
	}
	m.journal.write("started", nil)
	for turn := 0; ctx.Err() == nil; turn++ {
		if m.poll(ctx, client) && turn%2 == 0 {
			continue // they ride on the next fetch
		}
		m.flush(client)
	}
	m.flush(client)
	client.Close()
	m.journal.write("stopped", nil)
	return nil
}

func main() {
	arguments := os.Args[1:]
	fields, err := strconv.Atoi(arguments[3])
	if err != nil {
		panic(err)
	}
	holdMs, err := strconv.Atoi(arguments[4])
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var running sync.WaitGroup
	for _, name := range arguments[6:] {
		path := filepath.Join(arguments[5], name+".jsonl")
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		each := &member{
			journal: journal{file, name},
			fields:  fields,
			hold:    time.Duration(holdMs) * time.Millisecond,
			sent:    map[place][]int64{},
			results: map[string][]error{},
		}
		running.Go(func() {
			if err := each.run(ctx, arguments); err != nil {
				panic(err)
			}
		})
	}
	running.Wait()
}
