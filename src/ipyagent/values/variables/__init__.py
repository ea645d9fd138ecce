"""Snapshots of variables: what a call changed, in a line, and how it is taken back.

No code of the user's classes runs for it: objects are compared by identity, and by value only where
their type is exactly one of Python's own or a table library's.
"""
