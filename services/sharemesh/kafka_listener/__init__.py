"""Kafka's protocol as a second door: frames in, calls of the same handlers as gRPC, frames out."""
