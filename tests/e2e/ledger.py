"""A load pod under way: started, watched, stopped, and its journal judged."""

import json
from collections import defaultdict
from dataclasses import dataclass

from tests.e2e import objects
from tests.e2e.kube import CommandError, Kube, until
from tests.history.checker import History, Report
from tests.history.journal import Entry

DELIVERY_COUNT_LIMIT = 5
END_TIMEOUT_S = 150


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a load ended."""

    report: Report
    end: dict[str, object]
    longest_silence_ms: float  # between two confirmed acknowledgements in one partition
    troubles: list[str]

    def check(self) -> None:
        """Fail unless every confirmed record was accepted once, and none came back after that."""
        assert self.end["open"] == 0, f"confirmed but never acknowledged: {self.end}"
        assert self.report.violations == [], self.report.violations[:5]
        assert self.report.produced == self.end["confirmed"]
        assert self.report.produced > 0


class Load:
    """One load pod."""

    def __init__(self, kube: Kube, image: str, name: str) -> None:
        self._kube = kube
        self._image = image
        self.name = name

    def start(self, bootstrap: str, topic: str, group: str, *words: str) -> "Load":
        """Make the pod."""
        arguments = ["--topic", topic, "--group", group, "--set", f"bootstrap.servers={bootstrap}"]
        pod = objects.load_pod(self.name, self._image, [*arguments, *words])
        self._kube.apply(objects.load_config_map(), pod)
        return self

    def entries(self) -> list[Entry]:
        """Return what the pod said so far, in order of time; nothing before it is started."""
        found = []
        if self._kube.get("pod", self.name)["status"]["phase"] == "Pending":
            return []
        for line in self._kube.logs(self.name).splitlines():
            try:
                fields = json.loads(line)
            except ValueError:
                continue  # an error's traceback, or the last line half written
            found.append(Entry(fields.pop("t"), fields.pop("w"), fields.pop("e"), fields))
        return sorted(found, key=lambda entry: entry.time_ms)

    def acknowledged(self) -> int:
        """Return how many acknowledgements are confirmed so far."""
        return sum(
            last - first + 1
            for entry in self.entries()
            if entry.event == "acknowledged" and entry.fields["error"] is None
            for first, last in entry.fields["r"]
        )

    def flows(self, more: int = 40, *, timeout_s: float = 90) -> None:
        """Wait until so many more records are acknowledged."""
        begin = self.acknowledged()
        try:
            until(
                f"{more} more records through {self.name}",
                lambda: self.acknowledged() >= begin + more or None,
                timeout_s=timeout_s,
            )
        except AssertionError as error:
            said = self._kube.logs(self.name, "--tail=15")
            raise AssertionError(f"{error}; had {begin}; it says:\n{said}") from error

    def finish(self) -> Verdict:
        """Stop producing, wait until all is acknowledged, judge, and delete the pod."""
        self._kube.exec(self.name, "touch", "/tmp/stop")

        def over() -> bool | None:
            pod = self._kube.get("pod", self.name)
            return pod["status"]["phase"] in {"Succeeded", "Failed"} or None

        until(f"{self.name} ends", over, timeout_s=END_TIMEOUT_S)
        entries = self.entries()
        ends = [entry.fields for entry in entries if entry.event == "end"]
        if not ends:
            raise CommandError(f"{self.name} failed: {self._kube.logs(self.name, '--tail=30')}")
        self._kube.delete("pod", self.name)
        history = History(delivery_count_limit=DELIVERY_COUNT_LIMIT)
        history.add(entries)
        finished = defaultdict(set)
        for entry in entries:
            if entry.event in {"acknowledged", "finished"} and not entry.fields.get("error"):
                for first, last in entry.fields["r"]:
                    finished[entry.fields["p"]].update(range(first, last + 1))
        return Verdict(
            # All is finished by now, so that every start offset lies behind its last record.
            history.judge({}, finished, lambda name, _: max(finished[name], default=-1) + 1),
            ends[-1],
            longest_silence_ms(entries),
            [entry.fields["text"] for entry in entries if entry.event == "trouble"],
        )


def longest_silence_ms(entries: list[Entry]) -> float:
    """Return the longest time between two confirmed acknowledgements in one partition.

    It ends with the last produced record: after it there is nothing to acknowledge.
    """
    produced = [entry.time_ms for entry in entries if entry.event == "produced"]
    if not produced:
        return 0.0
    last_seen: dict[str, float] = {}
    longest = 0.0
    for entry in entries:
        if entry.event != "acknowledged" or entry.fields["error"] is not None:
            continue
        before = last_seen.get(entry.fields["p"])
        if before is not None and before <= produced[-1]:
            longest = max(longest, entry.time_ms - before)
        last_seen[entry.fields["p"]] = entry.time_ms
    return longest
