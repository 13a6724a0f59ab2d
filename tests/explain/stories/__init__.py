"""Cases of the stories: small pairs made by hand, in tables by subject."""
