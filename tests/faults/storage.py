"""Part storage of `make faults`."""

from tests.faults.bit_flip import bit_flip
from tests.faults.produce_kill import duplicate_after_failover, produce_kill
from tests.faults.state_log import state_kill, two_writers
from tests.faults.torn_tail import torn_tail
from tests.faults.trials import Fault

FAULTS = (
    Fault("produce_kill", 50, produce_kill),
    Fault("state_kill", 50, state_kill),
    Fault("torn_tail", 50, torn_tail),
    Fault("bit_flip", 50, bit_flip),
    Fault("two_writers", 50, two_writers),
    Fault("duplicate_after_failover", 50, duplicate_after_failover),
)
