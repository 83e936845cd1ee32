"""Generated protobuf messages (make protos)."""
