"""Figures of the report: each module draws one, `style` says how all look and are written."""
