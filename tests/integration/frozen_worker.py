"""A worker that writes orders to PostgreSQL, and stands still before one of its writes.

python -m tests.integration.frozen_worker BOOTSTRAP GROUP SOCKETS GUARD FREEZE

It freezes its whole process (SIGSTOP) between its work on a record and the write, once FREEZE
records have been begun; 0: never. It prints that record and its token before, and then whether
it wrote. SIGTERM stops it.
"""

import signal
import sys
import threading

from sharemesh.client import ConsumerRecord, connect
from tests.postgres_server import PsqlSession

TABLES = (
    "create table orders (id text primary key, state text, token text)",
    "create table effects (number bigserial, id text, token text)",
)
"""What the workers write, and each write that took effect, in order."""

GUARDED = " where orders.token <= excluded.token"


def name_of(record: ConsumerRecord) -> str:
    """Return the order's key."""
    return f"{record.topic}/{record.partition}@{record.offset}"


def written(record: ConsumerRecord, guard: str) -> str:
    """Return the statement that an order is paid, and that this was an effect."""
    name, token = name_of(record), record.fencing_token
    return (
        f"with done as (insert into orders values ('{name}', 'paid', '{token}') "
        "on conflict (id) do update set state = excluded.state, token = excluded.token"
        f"{guard} returning id) "
        f"insert into effects (id, token) select id, '{token}' from done returning id"
    )


def main(bootstrap: str, group: str, sockets: str, guard: str, freeze: int) -> None:
    """Work until SIGTERM."""
    write = PsqlSession(sockets)
    begun, turn = [0], threading.Lock()

    def handler(record: ConsumerRecord) -> None:
        """Pay an order, or freeze before that."""
        with turn:
            begun[0] += 1
            mine = begun[0] == freeze
        if mine:
            print(name_of(record), record.fencing_token, flush=True)
            # To this very thread: a signal to the process leaves it time to write before it stops.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        rows = write(written(record, guard))
        assert all(row.startswith(record.topic) for row in rows), rows
        if mine:
            print("wrote" if rows else "was refused", flush=True)

    with connect(bootstrap).share_consumer(group, ["orders"]) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        print("begun", flush=True)
        consumer.run(handler, concurrency=4)
    write.close()


if __name__ == "__main__":
    main(*sys.argv[1:4], GUARDED if sys.argv[4] == "token" else "", int(sys.argv[5]))
