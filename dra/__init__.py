"""What was asked for and what was allocated.

The vocabulary that the webhook and the hook sidecar share: the annotation a VM owner writes, the pod claims it becomes,
the intent handed to the sidecar, the metadata a DRA driver writes and the device that comes out of it. Standard library
only, and no input or output: text goes in, frozen values come out.
"""
