"""The tables of slow values. The first entry that matches a name and knows its values holds.

Sources: NCCL's, CUDA's, PyTorch's and the engines' own documentation of these settings, the kernel's of boot parameters
and sysctl, and what public reports on them have in common. `makes` spans what is documented or was reported for
decoding or prefill, widely; where a value is slow only under some conditions it is not called severe.
"""

from __future__ import annotations

from envsnap.explain.harm_arguments import ARGUMENTS
from envsnap.explain.harm_readings import READINGS
from envsnap.explain.harm_variables import VARIABLES

HARMS = (*VARIABLES, *ARGUMENTS, *READINGS)
