"""`dravirt doctor`: what of a cluster keeps VMs from their devices, and the command that mends it.

`gather` asks the API server and returns facts; every check is a function from facts to findings; `report` shows them.
"""
