"""What every role process has around its services: telemetry, identity, readiness, memory."""
