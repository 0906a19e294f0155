"""A small kubelet for tests: runs Pods as processes of this machine, in namespaces of their own (README.md)."""
