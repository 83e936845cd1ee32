// What went wrong, in words on stderr.
package main

import (
	"fmt"
	"os"
)

func end(code int, format string, values ...any) {
	fmt.Fprintf(os.Stderr, "consumer: "+format+"\n", values...)
	os.Exit(code)
}

func must[T any](value T, err error) T {
	if err != nil {
		end(1, "%v", err)
	}
	return value
}

// check ends the program at an error code of an answer: gRPC itself succeeded then.
func check(about string, code int32, message string) {
	if code != 0 {
		end(1, "%s: %s (error code %d)", about, message, code)
	}
}

// warn tells of one partition: the others go on.
func warn(partition int32, messages ...string) {
	for _, message := range messages {
		if message != "" {
			fmt.Fprintf(os.Stderr, "consumer: partition %d: %s\n", partition, message)
		}
	}
}
