"""The stories, one module each; see `envsnap.explain.story` for what a story is."""
