"""Changes containers before runc makes them: groups.py GROUP MICROSECONDS RUNC-ARGUMENT...

Their control groups are below GROUP, and those of punctual have half of a real-time budget, of each second, if it is
not 0.
"""
import json
import sys

group, budget, *arguments = sys.argv[1:]
if "create" in arguments and "--bundle" in arguments:
    name = arguments[arguments.index("--bundle") + 1] + "/config.json"
    with open(name) as file:
        config = json.load(file)
    config["linux"]["cgroupsPath"] = f"{group}/{arguments[-1]}"
    if config["process"]["args"][0].endswith("/punctual") and int(budget) > 0:
        cpu = config["linux"].setdefault("resources", {}).setdefault("cpu", {})
        cpu.update(realtimeRuntime=int(budget) // 2, realtimePeriod=1000000)
    with open(name, "w") as file:
        json.dump(config, file)
