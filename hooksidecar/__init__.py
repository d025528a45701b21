"""The hook sidecar of a launcher pod: it puts the allocated devices into the VM's libvirt domain.

The intent says what to attach. Sources (`metadatafiles`, `environment`) name candidates, `resolver` decides which
device is whose, `node` verifies them on the host, `state` remembers them, `attachment` leads them through and `domain`
edits the XML. `server` speaks KubeVirt's hook protocol and `main` is the process. Lean on purpose: it runs beside every
GPU VM.
"""
