"""Record logs: index, producers, transactions, snapshots."""
