"""
`manage.py up`: Tessera on one machine, from nothing, with one command.

Starts PostgreSQL and Valkey (unless told where they are), migrates, seeds, starts web, gateway,
workers, beat and in the demo two agents; restarts what dies; ends all of it on one Ctrl-C. It is
a parent of processes and imports no Django itself.
"""
