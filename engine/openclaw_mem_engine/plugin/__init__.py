"""The memory plug-in that keeps single memories: what is captured, stored, recalled, forgotten; and the table
of the agent's tools."""
