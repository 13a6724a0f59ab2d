"""Code: what differs between two states of a source tree, and what of it ran.

    recorded commits and patches, the repository ──> versions of each file ──> edits of statements
    what the workers recorded ──> lines that ran ──> verdict on each edit

`envsnap.explain.reach` puts it together.
"""
