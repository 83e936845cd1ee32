"""The operator's hands: the Kubernetes API, etcd, the running mesh."""
