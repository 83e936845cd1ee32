"""Coordination in etcd, over the wire stubs of aetcd."""
