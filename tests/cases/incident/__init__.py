"""The incident that envsnap was made for, as pairs of sides.

Eight GPUs without NVLink, a 1-trillion-parameter MoE under SGLang with EAGLE-3: 89 tok/s without and 94 with
speculation then, 82 and 60 now; a verify step of 19 ms then and 29 now. The engine is a small repository with the shape
of the real one: two commits were pulled, eight files are changed locally. In one variant the fast runs recorded their
state, and their workers had NCCL variables that nobody exports any more; in the other nothing but the figures is left
of them.
"""
