"""Certificates of the webhook's server: keys, rotation, and the authorities that API servers trust.

```
certificates   keys and certificates, made and checked
material       what the Secret holds: authorities, their key, a certificate and its key
rotation       (now, state, policy) -> what to change; when a replica takes what was changed
cabundle       what the webhook configurations trust, and the patch that mends it
store          what is kept in a cluster: the Secret by compare-and-swap, the configurations by patch
cluster        the API server that keeps it
selfmanaged    a source: the Secret, kept by its readers
files          a source: files that someone else keeps (cert-manager, OpenShift's service CA, a person)
agent          asks a source again and again and hands on what is new
```
"""
