"""Families of requests. A file holds how they are said, their code, and how they are answered."""
