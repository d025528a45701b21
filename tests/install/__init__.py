"""dravirt installed as its users install it: manifests and images, in pods, on the cluster of `tests/cluster`."""
