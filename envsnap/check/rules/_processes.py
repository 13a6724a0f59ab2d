"""Programs that hold GPUs and take nothing from a benchmark."""

from __future__ import annotations

from collections.abc import Iterable

_HARMLESS = """
nvidia-smi nvidia-persistenced nv-hostengine nv-fabricmanager nvidia-imex nvidia-powerd dcgm-exporter dcgmi
nvidia-cuda-mps-control nvidia-cuda-mps-server nvtop nvitop gpustat nvidia-settings nvidia-modprobe
Xorg X Xwayland gnome-shell kwin_x11 kwin_wayland gpud datadog-agent telegraf envsnap
"""
_SHORT = frozenset(name[:15] for name in _HARMLESS.split())  # the kernel keeps 15 characters of a name


def foreign(names: Iterable[str]) -> list[str]:
    """The names that are not of monitors, daemons of the driver and displays; as often as they occur."""
    return [name for name in names if name[:15] not in _SHORT]
