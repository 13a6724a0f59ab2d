"""Prove: the experiment that settles which suspect made it slow, with few runs and a verdict that holds.

    suspects ──> levers ──> search <──> trials (one run each, journalled) ──> result

The search decides what to run next and never touches the machine; the trials run it and never decide.
"""
