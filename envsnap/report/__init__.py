"""How changes, findings and snapshots are shown: text, markdown, JSON."""
