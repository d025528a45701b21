"""KubeVirt's hook protocol: our definitions of its messages and the stubs that protoc makes of them.

`make protos` makes the stubs anew, with the oldest grpcio-tools that pyproject.toml allows: stubs refuse to load under
an older grpcio or protobuf than they were made with.
"""
