#!/bin/sh
# One record there and back: a value that nobody else has, and a share group that reads the topic from its beginning.
set -eu
value="helm-test-$(date +%s)-$$"
group="$value"
sm() { command=$1; shift; sharemesh "$command" "$@" $CONNECTION; }
# On Kafka storage the topic is there and gets attached, or topics are managed and it gets created.
sm topics describe "$TOPIC" >/dev/null 2>&1 || sm topics attach "$TOPIC" >/dev/null 2>&1 || sm topics create "$TOPIC" --partitions 1
printf '%s\n' "$value" | sm produce "$TOPIC" --format text
sm consume "$TOPIC" --group "$group" --from-beginning --idle 5000 > /tmp/got
sm groups delete "$group" >/dev/null 2>&1 || true # its members may still be known
if grep -q "$value" /tmp/got; then echo "record $value came back"; else
    echo "record $value did not come back, among $(wc -l < /tmp/got) others" >&2
    exit 1
fi
