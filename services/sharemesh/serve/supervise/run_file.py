"""Names in the data directory of ``sharemesh up``: what tools read, and what each process says."""

RUN_FILE = "run/cluster.json"
LOGS = "logs"
