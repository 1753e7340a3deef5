"""Every operator, executed on the embedded device through the production runtime, against the torch references.

``tensors`` device memory that shows what a kernel did to it; ``rows``, ``products``, ``caches`` the cases; ``worker`` runs
them in a process of its own, since a process opens one HIP library and the devices are fixed when it does.
"""
