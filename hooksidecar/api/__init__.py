"""KubeVirt's hook protocol: our definitions of its messages, and the stubs for clients that protoc makes of them.

`make protos` makes the stubs anew, with the oldest grpcio-tools that pyproject.toml allows: stubs refuse to load under
an older grpcio or protobuf than they were made with. The sidecar itself does without them: see `hooksidecar.wire`.
"""
