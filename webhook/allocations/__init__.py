"""The allocation service: a sidecar asks with its pod's token, and learns which devices its pod was allocated.

For drivers that write neither metadata files nor variables. The facts are read from the API server and joined in pure
functions (`caller`, `podclaims`, `reservation`, `results`, `pools`); `service` fetches, `route` speaks HTTP.
"""
