"""Seeds that once found something: they are replayed with every run of the suite.

What a seed does changes with the code that it runs, so a seed keeps its bug only until something
else on its way changes; each bug has a test of its own beside it, named here.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Regression:
    """One seed of a workload, what it found, and the test that holds it."""

    workload: str
    seed: int
    found: str
    test: str


REGRESSIONS = (
    Regression(
        "mixed",
        1,
        "a drained leader was asked again without a pause until the metadata changed",
        "tests/client/test_async_share_consumer.py",
    ),
    Regression(
        "mixed",
        301,
        "a power cut brought files of a deleted topic back, which nobody freed any more",
        "tests/backends/test_record_log_faults.py",
    ),
    Regression(
        "mixed",
        411,
        "checker: a release that is answered after its record came again counted as its accept",
        "tests/simulation/clients.py keeps what was said in order",
    ),
    Regression(
        "mixed",
        44,
        "a periodic job of a shard on a full volume was an error in the log, and no refusal; early "
        "reads of share states had an order of their own in each process",
        "tests/runtime/test_shard.py, tests/simulation/test_determinism.py",
    ),
    Regression(
        "mixed",
        130,
        "checker: a record was archived by the delivery limit and the write of it lost (LK-6): its "
        "leader goes on, the state log does not know it yet",
        "tests/domain/share_partition/test_unwritten.py: the write is repeated since",
    ),
    Regression(
        "mixed",
        100,
        "run(handler) ended when one partition could not be read for the time being",
        "tests/client/test_handler_runner.py",
    ),
    Regression(
        "mixed",
        43,
        "checker: what a holder said again, late, of its own record was a second decision",
        "tests/history/test_checker.py",
    ),
    Regression(
        "mixed",
        7,
        "checker: the decisive answer was overtaken by the answer to a late acknowledgement",
        "tests/history/test_checker.py",
    ),
    Regression(
        "mixed",
        219,
        "a sweep of deleted topics that a full volume refused was an error with a traceback",
        "tests/runtime/test_shard.py",
    ),
    Regression(
        "mixed",
        127,
        "checker: a leader that never hears how its write ended may decide otherwise afterwards",
        "tests/simulation/test_checkers.py",
    ),
    Regression(
        "mixed",
        244,
        "checker: answers of a deposed leader and of its successor overtake each other",
        "tests/history/test_checker.py",
    ),
    Regression(
        "trimmed",
        43,
        "records held before a leader change were deleted: the share partition asked for them for "
        "ever, and delivered nothing more",
        "tests/share_leader/test_record_log_methods.py, tests/conformance/test_log_start.py",
    ),
    Regression(
        "mixed",
        353,
        "a leader that was cut off from the store started its ended epoch again after the topic "
        "was deleted, and left files that nobody frees",
        "tests/cluster/test_partition_claims.py",
    ),
    Regression(
        "mixed",
        545,
        "a group without sessions was dropped while the state of expired locks was being written: "
        "deliveries were counted anew",
        "tests/share_leader/test_unary.py",
    ),
    Regression(
        "mixed",
        2094,
        "records that the delivery limit had archived were delivered again: the write of it had "
        "failed, and the group was dropped",
        "tests/domain/share_partition/test_unwritten.py",
    ),
    Regression(
        "mixed",
        2149,
        "checker: the lag of a temporary topic that could not be deleted, and that nobody reads",
        "tests/simulation/workloads/mixed.py looks at the topics that are read",
    ),
    Regression(
        "mixed",
        4018,
        "checker: a member that slept longer than its locks got a record five times and never "
        "looked at it: archived by the delivery limit, and delivered to nobody",
        "tests/history/test_checker.py",
    ),
    Regression(
        "refused",
        8,
        "a lock that was handed over ended at the next leader, and its member counted as stalled: "
        "it had nothing to say, so records waited for ever",
        "tests/domain/share_partition/test_hand_over.py",
    ),
    Regression(
        "trimmed",
        3,
        "checker: what was deleted may have been finished before, and hid what was not",
        "tests/simulation/workloads/mixed.py waits for the time of a lock",
    ),
    Regression(
        "tenants",
        904,
        "checker: who was looked at, and took nothing, before its quota was raised had a full "
        "second of the new value",
        "tests/simulation/test_rate_checker.py",
    ),
    Regression(
        "tenants",
        1063,
        "a Produce that began before its principal had a quota did not tell the debt that others "
        "of that principal had run up when it ended",
        "tests/share_leader/test_quotas.py",
    ),
    Regression(
        "mixed",
        114,
        "run(handler) let locks end without a word, and was taken for stalled for good",
        "tests/client/test_fencing_tokens.py",
    ),
    Regression(
        "handed_over",
        42,
        "what was handed over stayed with a next leader that had drained before anybody asked it "
        "for the share partition: it was refused until that session ended",
        "tests/client/test_handed_over.py",
    ),
    Regression(
        "handed_over",
        3251,
        "what was handed over was lost with the session of a next leader that drained before it "
        "had read the share partition's state: the locks went on to the one after it, and lapsed",
        "tests/client/test_handed_over.py",
    ),
    Regression(
        "held",
        20672,
        "explain called a rejected record ARCHIVED while the write of a lock that had ended before "
        "waited to be repeated",
        "tests/domain/share_partition/test_unwritten.py",
    ),
    Regression(
        "held",
        20901,
        "explain called a rejected record ARCHIVED: the write of a lock that had ended before was "
        "confirmed after that of the rejection",
        "tests/telemetry/test_endings_of_records.py",
    ),
)
