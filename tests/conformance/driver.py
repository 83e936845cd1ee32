"""JSON lines in, JSON lines out: drives one share partition (`make -s conformance-driver`)."""

import json
import sys
from typing import Any

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import IsolationLevel
from sharemesh.domain.share_partition.events import AcquireMode, Fence, Lifecycle
from tests.conformance.fields import (
    LARGEST_SETTING,
    LARGEST_STEP,
    LONGEST_JUMP_MS,
    BadRequestError,
    Json,
    choice,
    flag,
    given,
    integer,
    name_of,
    parsed,
    rows,
    shown,
    whole,
)
from tests.conformance.memory_persister import MemoryPersister
from tests.conformance.world import PartitionWorld, persisted

STATE_NAMES = {
    DeliveryState.AVAILABLE: "AV",
    DeliveryState.ACQUIRED: "AQ",
    DeliveryState.ACKNOWLEDGED: "AK",
    DeliveryState.ARCHIVING: "AG",
    DeliveryState.ARCHIVED: "AR",
}
ISOLATION = {
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
    "read_committed": IsolationLevel.READ_COMMITTED,
}
MODES = {
    "batch_optimized": AcquireMode.BATCH_OPTIMIZED,
    "record_limit": AcquireMode.RECORD_LIMIT,
}
RESETS = {"earliest": "earliest", "latest": "latest"}
WRITE_MODES = {mode: mode for mode in ("ok", "fail", "hold")}
OUTCOMES = {"ok": True, "fail": False}
WRITE_ERRORS = {error.name: error for error in ErrorCode if error is not ErrorCode.NONE}
STATES = {int(state) for state in STATE_NAMES}
LISTED_OFFSETS = 2 * LARGEST_STEP  # more are not listed one by one


class Driver:
    """The protocol of the conformance driver over one partition."""

    def __init__(self) -> None:
        self._world = PartitionWorld()
        self._futures: dict[int, int] = {}  # number -> request id
        self._future_numbers = 0

    def answer(self, line: str) -> Json:
        """Answer one request line; never raises."""
        request: Any = None
        try:
            request = parsed(line)
            response = self._dispatch(request)
        except Exception as error:  # the driver goes on, whatever happened
            response = {"exception": f"{type(error).__name__}: {error}"}
        if isinstance(request, dict) and "id" in request:
            response["id"] = request["id"]
        return response

    def _dispatch(self, request: Any) -> Json:
        if not isinstance(request, dict):
            raise BadRequestError(f"a request is an object, not {type(request).__name__}")
        operation = given(request, "op")
        handler = getattr(self, f"_op_{operation}", None) if isinstance(operation, str) else None
        if handler is None:
            raise BadRequestError(f"unknown op {shown(operation)}")
        dump, batches_view = flag(request, "dump", True), flag(request, "batches_view", False)
        writes = len(self._world.persister.log)
        response = handler(request)
        made = self._world.persister.log[writes:] if operation not in {"reset", "init"} else []
        if made:
            response["writes"] = [
                {
                    "start": write.start_offset,
                    "complete": write.delivery_complete_count,
                    "state_epoch": write.state_epoch,
                    "batches": [_row(batch) for batch in write.batches],
                }
                for write in made
            ]
        if dump and self._world.machine is not None:
            response["state"] = self._state(batches_view=batches_view)
        return response

    # ---- operations

    def _op_reset(self, _: Json) -> Json:
        self.__init__()
        return {}

    def _op_config(self, request: Json) -> Json:
        self._world.configure(**_settings(request))
        return {}

    def _op_init(self, request: Json) -> Json:
        settings = _settings(request)
        world = self._world
        persister = _persister(request, world.persister)
        log_start = integer(request, "log_start", world.log.start)
        world.persister = persister
        world.log.start = log_start
        world.log.end = max(world.log.end, log_start)
        world.machine = None
        world.configure(**settings)
        return {"error": self._initialized(world.initialize())}

    def _op_restart(self, request: Json) -> Json:
        self._world.partition  # noqa: B018
        fenced = flag(request, "mark_fenced", False)
        return {"error": self._initialized(self._world.restart(mark_fenced=fenced))}

    def _op_append(self, request: Json) -> Json:
        counts = given(request, "batches")
        if not isinstance(counts, list):
            raise BadRequestError(f"batches {shown(counts)}: a list of numbers is needed")
        for count in counts:
            whole(count, "records of a batch", 1, LARGEST_STEP)
        whole(sum(counts), "records of all batches", 0, LARGEST_STEP)
        producer = integer(request, "producer_id", -1, low=-1)
        batches = [self._world.log.append(count, producer) for count in counts]
        return {"appended": [[batch.base_offset, batch.last_offset] for batch in batches]}

    def _op_gap(self, request: Json) -> Json:
        self._world.log.gap(integer(request, "n", high=LARGEST_STEP))
        return {}

    def _op_compact(self, request: Json) -> Json:
        removed = self._world.log.compact(integer(request, "first"), integer(request, "last"))
        return {"removed": [[batch.base_offset, batch.last_offset] for batch in removed]}

    def _op_end_txn(self, request: Json) -> Json:
        producer, commit = integer(request, "producer_id"), flag(request, "commit")
        return {"offset": self._world.log.end_transaction(producer, commit=commit)}

    def _op_fetch(self, request: Json) -> Json:
        fetched = self._world.fetch(
            name_of(request, "member"),
            max_records=integer(request, "max_records", 500),
            batch_size=integer(request, "batch_size", 500, low=1),
            mode=choice(MODES, request, "mode", "batch_optimized"),
            fetch_offset=_optional(request, "fetch_offset"),
            max_batches=_optional(request, "max_batches"),
            force=flag(request, "force", False),
        )
        response: Json = {
            "fetch_offset": fetched.fetch_offset,
            "can_acquire": fetched.can_acquire,
            "acquired": [list(row) for row in fetched.acquired],
            "count": fetched.count,
        }
        if fetched.log_batches is not None:
            response["fetched"] = [[b.base_offset, b.last_offset] for b in fetched.log_batches]
        return response

    def _op_ack(self, request: Json) -> Json:
        batches = []
        for row in rows(request, "batches", 3):
            listed = row[2] if isinstance(row[2], list) else [row[2]]
            # what a range or a type may be is the machine's own rule: any whole number goes there
            for each in (*row[:2], *listed):
                whole(each, "batches: number", -(2**63), 2**63)
            batches.append((row[0], row[1], tuple(listed)))
        member = name_of(request, "member")
        self._world.partition  # noqa: B018
        return self._answered(self._world.acknowledge(member, batches))

    def _op_release(self, request: Json) -> Json:
        member = name_of(request, "member")
        self._world.partition  # noqa: B018
        return self._answered(self._world.release(member))

    def _op_lso(self, request: Json) -> Json:
        self._world.partition  # noqa: B018
        self._world.move_log_start(integer(request, "offset"))
        return {}

    def _op_advance(self, request: Json) -> Json:
        duration_ms = integer(request, "ms", high=LONGEST_JUMP_MS)
        self._world.partition  # noqa: B018
        return {"ran": self._world.advance(duration_ms)}

    def _op_persister(self, request: Json) -> Json:
        persister = self._world.persister
        mode = choice(WRITE_MODES, request, "mode", persister.mode)
        error = choice(WRITE_ERRORS, request, "error", persister.error.name)
        completes = "complete" in request
        ok = choice(OUTCOMES, request, "complete", "ok")
        count = _optional(request, "n")
        persister.mode, persister.error = mode, error
        return {"completed": persister.complete_held(ok=ok, count=count)} if completes else {}

    def _op_futures(self, _: Json) -> Json:
        done: Json = {}
        for number, request_id in list(self._futures.items()):
            answer = self._world.answers.get(request_id)
            if answer is None:
                done[str(number)] = "PENDING"
            else:
                done[str(number)] = _error(answer.error, answer.message)
                del self._futures[number]
        return {"futures": done}

    def _op_fence(self, _: Json) -> Json:
        self._world.step(Fence())
        return {}

    def _op_dump(self, _: Json) -> Json:
        return {}

    # ---- answers

    def _initialized(self, outcome: Any) -> str | None:
        return "PENDING" if outcome is None else _error(outcome.error, outcome.message)

    def _answered(self, request_id: int) -> Json:
        answer = self._world.answers.get(request_id)
        if answer is not None:
            return {"error": _error(answer.error, answer.message)}
        self._future_numbers += 1
        self._futures[self._future_numbers] = request_id
        return {"error": "PENDING", "future": self._future_numbers}

    def _state(self, *, batches_view: bool) -> Json:
        world, machine = self._world, self._world.partition
        state: Json = {
            "now": world.now_ms,
            "partition": machine.state.value,
            "start": machine.start_offset,
            "state_epoch": machine.state_epoch,
            "complete": machine.delivery_complete_count,
            "can_acquire": machine.can_acquire(),
            "log_start": world.log.start,
            "log_end": world.log.end,
        }
        if machine.state in {Lifecycle.ACTIVE, Lifecycle.FENCED}:
            state["end"] = machine.end_offset
            state["next"] = machine.next_fetch_offset()
        else:
            state["end_error"] = f"the share partition is {machine.state.value}"
        if machine.gap_window is not None:
            state["gap_window"] = list(machine.gap_window)
        cached = sum(each.last_offset - each.first_offset + 1 for each in machine.record_states())
        if cached <= LISTED_OFFSETS:
            state["offsets"] = self._offsets()
        else:
            state["offsets_error"] = f"{cached} offsets are cached: too many to be listed"
        if batches_view:
            state["batches"] = [
                [batch.first_offset, batch.last_offset] for batch in machine.cached_batches()
            ]
        persister = world.persister
        state["persisted"] = {
            "start": persister.start,
            "complete": persister.complete,
            "held": len(persister.held),
            "batches": [_row(batch) for batch in persister.batches],
        }
        return state

    def _offsets(self) -> list[list[Any]]:
        rows: list[list[Any]] = []
        for view in self._world.partition.record_states():
            tail = [
                STATE_NAMES[view.state],
                view.delivery_count,
                view.member_id,
                view.lock_deadline_ms,
            ]
            if view.in_transition:
                tail.append(True)
            rows.extend(
                [offset, *tail] for offset in range(view.first_offset, view.last_offset + 1)
            )
        return rows


def _error(error: ErrorCode, message: str) -> str | None:
    return None if error is ErrorCode.NONE else f"{error.name}: {message}"


def _row(batch: Any) -> list[int]:
    return [
        batch.first_offset,
        batch.last_offset,
        int(batch.delivery_state),
        batch.delivery_count,
    ]


def _persister(request: Json, before: MemoryPersister) -> MemoryPersister:
    """Return what holds the state that the request gives; it answers writes as the one before."""
    persister = MemoryPersister(mode=before.mode, error=before.error)
    held = request.get("persisted")
    if held is None:
        return persister
    if not isinstance(held, dict):
        raise BadRequestError(f"persisted {shown(held)}: an object is needed")
    persister.start = integer(held, "start", low=-1)
    persister.state_epoch = integer(held, "state_epoch", 0, high=LARGEST_SETTING)
    batches = []
    for first, last, state, count in rows(held, "batches", 4, []):
        whole(first, "first offset", 0, 2**63 - 1)
        whole(last, "last offset", 0, min(first + LARGEST_STEP, 2**63 - 1))
        if type(state) is not int or state not in STATES:
            raise BadRequestError(f"state {shown(state)}: one of {sorted(STATES)} is needed")
        batches.append(persisted(first, last, state, whole(count, "delivery count", 0, 2**15 - 1)))
    persister.batches = tuple(batches)
    return persister


def _settings(request: Json) -> Json:
    if flag(request, "dlq", False):
        raise BadRequestError("dlq: the dead-letter queue is not in this version")
    settings: Json = {}
    for name, setting in (
        ("lock_ms", "record_lock_duration_ms"),
        ("max_delivery", "delivery_count_limit"),
        ("max_inflight", "partition_max_record_locks"),
    ):
        if name in request:
            settings[setting] = integer(request, name, low=1, high=LARGEST_SETTING)
    if "renew" in request:
        settings["renew_acknowledge_enable"] = flag(request, "renew")
    if "reset" in request:
        settings["auto_offset_reset"] = choice(RESETS, request, "reset")
    if "isolation" in request:
        settings["isolation_level"] = choice(ISOLATION, request, "isolation")
    return settings


def _optional(request: Json, name: str) -> int | None:
    return None if request.get(name) is None else integer(request, name)


def main() -> None:
    """Answer line by line, empty and broken ones too, until the input ends."""
    driver = Driver()
    for line in sys.stdin.buffer:
        answer = driver.answer(line.decode("utf-8", errors="replace").removesuffix("\n"))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
