"""The bundled demo: a believable agent workspace, its sessions, and queries that teach the ranking."""

from openclaw_mem_engine.demo.queries import DemoQueries, Grade, JudgedQuery, SuggestedQuery, load_queries
from openclaw_mem_engine.demo.shifting import ANCHOR
from openclaw_mem_engine.demo.workspace import write_demo

__all__ = [
    "ANCHOR",
    "DemoQueries",
    "Grade",
    "JudgedQuery",
    "SuggestedQuery",
    "load_queries",
    "write_demo",
]
