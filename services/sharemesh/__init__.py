"""Sharemesh: Kafka share groups (KIP-932) as a service."""

__version__ = "0.1.0"
