"""The admission webhooks: they turn an annotation into placeholders, claims and a hook sidecar.

What is decided stands in pure modules (`vm`, `vmi`, `pod`, `validation`); HTTP, TLS and files stay at the rim.
"""
