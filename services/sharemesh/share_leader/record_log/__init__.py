"""Produce, ListOffsets, DeleteRecords and what else appends to a record log."""
