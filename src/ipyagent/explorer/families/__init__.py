"""Families of requests. A file holds their phrasing, their code, and their answers."""
