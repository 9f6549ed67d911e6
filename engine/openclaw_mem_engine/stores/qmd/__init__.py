"""The index of the QMD backend: a SQLite file in the schema of QMD 2.8.3, which that program can open."""
