"""gRPC: fills ports.network with channels, servers, deadlines and status."""
