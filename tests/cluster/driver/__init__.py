"""A stand-in for a DRA driver: publishes slices, registers with the kubelet, prepares and unprepares claims.

`plugin` speaks the kubelet's protocol and `publication` the API server's; neither knows what a device is. `devices`
turns an allocated device into what a container gets: a CDI device and KEP-5304 metadata.
"""
