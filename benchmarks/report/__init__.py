"""How fast the report is made at the paper's size, and how fast its page opens and scrolls."""
