"""Runs of the real engine on a machine with H200 GPUs: a plan of steps that goes on where it stopped."""
