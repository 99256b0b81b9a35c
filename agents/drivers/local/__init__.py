"""
The runtime for development: one host process per instance, with an SSH server of its own inside.
It isolates nothing: customers' processes see the machine's processes, network and readable files.
"""
