"""Families of requests: each file holds how they are said, their code, and how they are answered."""
