"""On a node: drivers that write nothing into the pod, and sidecars that ask dravirt's service which device it is."""
