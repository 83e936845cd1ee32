"""Part storage of `make faults`."""

from tests.faults.bit_flip import bit_flip
from tests.faults.disk_full import disk_full
from tests.faults.failed_fsync import failed_fsync
from tests.faults.produce_kill import duplicate_after_failover, produce_kill
from tests.faults.reader import reader_during_takeover
from tests.faults.state_log import state_kill
from tests.faults.torn_tail import torn_tail
from tests.faults.trials import Fault, Series
from tests.faults.two_writers import two_writers

FAULTS = (
    Fault("produce_kill", 50, produce_kill),
    Series("state_kill", 50, state_kill, at_once=10),
    Fault("torn_tail", 50, torn_tail),
    Fault("bit_flip", 50, bit_flip),
    Fault("disk_full", 50, disk_full),
    Fault("failed_fsync", 50, failed_fsync),
    Fault("two_writers", 50, two_writers),
    Fault("reader_during_takeover", 50, reader_during_takeover),
    Fault("duplicate_after_failover", 50, duplicate_after_failover),
)
