"""The promises of the runtime, each with tests that fail when it is broken: nothing written or started, threads, forks,
several devices, bad devices, long runs. On the embedded device where kernels must run, else on the stub driver.
"""
