"""A graph of operators: its nodes, the edges that connect them, and the memory that passes along one."""
