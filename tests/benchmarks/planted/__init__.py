"""The scoreboard of planted causes on a real engine: what trials show of each, and what envsnap says of it."""
