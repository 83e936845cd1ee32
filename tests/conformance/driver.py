"""JSON lines in, JSON lines out: drives one share partition (`make -s conformance-driver`)."""

import json
import sys
from typing import Any

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.group_config import IsolationLevel
from sharemesh.domain.share_partition.events import AcquireMode, Fence
from sharemesh.domain.share_partition.lifecycle import Lifecycle
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
Json = dict[str, Any]


class BadRequestError(Exception):
    """The request cannot be understood; nothing was changed."""


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
            request = json.loads(line)
            response = self._dispatch(request)
        except Exception as error:  # the driver goes on, whatever happened
            response = {"exception": f"{type(error).__name__}: {error}"}
        if isinstance(request, dict) and "id" in request:
            response["id"] = request["id"]
        return response

    def _dispatch(self, request: Any) -> Json:
        if not isinstance(request, dict):
            raise BadRequestError(f"a request is an object, not {type(request).__name__}")
        operation = request.get("op")
        handler = getattr(self, f"_op_{operation}", None) if isinstance(operation, str) else None
        if handler is None:
            raise BadRequestError(f"unknown op {operation!r}")
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
        if request.get("dump", True) and self._world.machine is not None:
            response["state"] = self._state(batches_view=request.get("batches_view", False))
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
        held = request.get("persisted")
        world = self._world
        persister = MemoryPersister(mode=world.persister.mode, error=world.persister.error)
        if held is not None:
            persister.start = _integer(held, "start")
            persister.state_epoch = _integer(held, "state_epoch", 0)
            persister.batches = tuple(
                persisted(*_integers(row, 4)) for row in held.get("batches", [])
            )
        log_start = _integer(request, "log_start", world.log.start)
        world.persister = persister
        world.log.start = log_start
        world.log.end = max(world.log.end, log_start)
        world.machine = None
        world.configure(**settings)
        return {"error": self._initialized(world.initialize())}

    def _op_restart(self, request: Json) -> Json:
        self._world.partition  # noqa: B018
        fenced = bool(request.get("mark_fenced", False))
        return {"error": self._initialized(self._world.restart(mark_fenced=fenced))}

    def _op_append(self, request: Json) -> Json:
        counts = request["batches"]
        producer = _integer(request, "producer_id", -1)
        if not all(isinstance(count, int) and count > 0 for count in counts):
            raise BadRequestError(f"batches {counts!r}: numbers of records above 0")
        batches = [self._world.log.append(count, producer) for count in counts]
        return {"appended": [[batch.base_offset, batch.last_offset] for batch in batches]}

    def _op_gap(self, request: Json) -> Json:
        self._world.log.gap(_integer(request, "n"))
        return {}

    def _op_compact(self, request: Json) -> Json:
        removed = self._world.log.compact(_integer(request, "first"), _integer(request, "last"))
        return {"removed": [[batch.base_offset, batch.last_offset] for batch in removed]}

    def _op_end_txn(self, request: Json) -> Json:
        producer = _integer(request, "producer_id")
        return {"offset": self._world.log.end_transaction(producer, commit=bool(request["commit"]))}

    def _op_fetch(self, request: Json) -> Json:
        offset = request.get("fetch_offset")
        most = request.get("max_batches")
        fetched = self._world.fetch(
            _member(request),
            max_records=_integer(request, "max_records", 500),
            batch_size=_integer(request, "batch_size", 500),
            mode=_choice(MODES, request, "mode", "batch_optimized"),
            fetch_offset=None if offset is None else _integer(request, "fetch_offset"),
            max_batches=None if most is None else _integer(request, "max_batches"),
            force=bool(request.get("force", False)),
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
        for first, last, types in request["batches"]:
            listed = types if isinstance(types, list) else [types]
            batches.append((*_integers([first, last], 2), tuple(_integers(listed, len(listed)))))
        self._world.partition  # noqa: B018
        return self._answered(self._world.acknowledge(_member(request), batches))

    def _op_release(self, request: Json) -> Json:
        self._world.partition  # noqa: B018
        return self._answered(self._world.release(_member(request)))

    def _op_lso(self, request: Json) -> Json:
        self._world.partition  # noqa: B018
        self._world.move_log_start(_integer(request, "offset"))
        return {}

    def _op_advance(self, request: Json) -> Json:
        duration_ms = _integer(request, "ms")
        if duration_ms < 0:
            raise BadRequestError(f"ms {duration_ms}: the clock does not go back")
        self._world.partition  # noqa: B018
        return {"ran": self._world.advance(duration_ms)}

    def _op_persister(self, request: Json) -> Json:
        persister = self._world.persister
        if "error" in request:
            persister.error = ErrorCode[request["error"]]
        if "mode" in request:
            if request["mode"] not in {"ok", "fail", "hold"}:
                raise BadRequestError(f"mode {request['mode']!r}: ok, fail or hold")
            persister.mode = request["mode"]
        if "complete" not in request:
            return {}
        if request["complete"] not in {"ok", "fail"}:
            raise BadRequestError(f"complete {request['complete']!r}: ok or fail")
        count = request.get("n")
        return {"completed": persister.complete_held(ok=request["complete"] == "ok", count=count)}

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
        state["offsets"] = self._offsets()
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


def _settings(request: Json) -> Json:
    if request.get("dlq"):
        raise BadRequestError("dlq: the dead-letter queue is not in this version")
    settings: Json = {}
    for name, setting in (
        ("lock_ms", "record_lock_duration_ms"),
        ("max_delivery", "delivery_count_limit"),
        ("max_inflight", "partition_max_record_locks"),
    ):
        if name in request:
            settings[setting] = _integer(request, name)
    if "renew" in request:
        settings["renew_acknowledge_enable"] = bool(request["renew"])
    if "reset" in request:
        settings["auto_offset_reset"] = _choice(
            {"earliest": "earliest", "latest": "latest"}, request, "reset", ""
        )
    if "isolation" in request:
        settings["isolation_level"] = _choice(ISOLATION, request, "isolation", "")
    return settings


def _choice(choices: dict[str, Any], request: Json, name: str, default: str) -> Any:
    value = request.get(name, default)
    if value not in choices:
        raise BadRequestError(f"{name} {value!r}: one of {', '.join(choices)}")
    return choices[value]


def _member(request: Json) -> str:
    member = request["member"]
    if not isinstance(member, str) or not member:
        raise BadRequestError(f"member {member!r}: a name")
    return member


def _integer(request: Json, name: str, default: int | None = None) -> int:
    value = request[name] if default is None else request.get(name, default)
    return _integers([value], 1)[0]


def _integers(values: list[Any], count: int) -> list[int]:
    if len(values) != count or not all(type(value) is int for value in values):
        raise BadRequestError(f"{values!r}: {count} integers are needed")
    return values


def main() -> None:
    """Answer line by line until the input ends."""
    driver = Driver()
    for line in sys.stdin:
        if line.strip():
            sys.stdout.write(json.dumps(driver.answer(line)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
