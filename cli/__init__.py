"""The command `dravirt`: one engine, another door.

`render`, `resolve` and `hook` call the functions that the webhook and the sidecar call; `simulate` runs both for real.
"""
