"""Requests so many collections: python3 collect.py COUNT.

It prints READY, waits for a line, runs, prints DONE, and waits for another line."""
import gc
import os
import sys
import time

gc.disable()
print("READY", os.getpid(), 0, flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[1])):
    gc.collect()
    time.sleep(0.002)
print("DONE", flush=True)
sys.stdin.readline()
