"""How fast paid generators are asked, and how much memory that takes."""
