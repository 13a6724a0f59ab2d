"""A pretend benchmark: python bench.py PORT prints what the engine says of its speed."""

import json
import sys
import urllib.request

with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/speed") as answer:
    print("speed:", json.load(answer)["speed"])
