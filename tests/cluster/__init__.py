"""A real cluster on one machine: control plane, KubeVirt and a node as plain processes in namespaces of their own.

The programs are built from pinned Go modules, images by scripts; there is no container engine and no image registry.
A suite takes the layers it needs (see `stack`), a person runs `python -m cluster up`.
"""
