"""The process tree of interest: roles, live environment, mapped libraries, in-worker records."""
