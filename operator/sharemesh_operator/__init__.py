"""The Kubernetes operator of Sharemesh."""
