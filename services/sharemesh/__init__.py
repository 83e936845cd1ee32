"""Sharemesh: Kafka share groups (KIP-932) as a service."""

import os
import sys

# gRPC's own lines on standard error are not in the form of ours, and repeat what our errors say.
# It reads this when it is imported: an application that did so before us has its own way.
if "grpc" not in sys.modules:
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

__version__ = "0.1.0"
