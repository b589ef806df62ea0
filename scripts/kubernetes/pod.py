"""Prints a pod like those of a manifest, on one node, with other arguments and rights, as JSON.
Without --as-deployed it has /dev/cpu_dma_latency.

pod.py NAME NODE CAPABILITIES SECCOMP ARGUMENT... < manifest.json
"""
import json
import sys

name, node, capabilities, seccomp, *arguments = sys.argv[1:]
spec = json.load(sys.stdin)["spec"]["template"]["spec"]
spec["nodeName"] = node
spec["restartPolicy"] = "Never"
spec["securityContext"]["seccompProfile"] = {"type": seccomp}
container = spec["containers"][0]
container["args"] = arguments
added = [each for each in capabilities.split(",") if each]
container["securityContext"]["capabilities"] = {"drop": ["ALL"], "add": added}
container["resources"] = {}
for mount in container["volumeMounts"]:
    mount.pop("subPathExpr", None)
container["env"] = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
if "qualify" in arguments and "--as-deployed" not in arguments:
    device = "/dev/cpu_dma_latency"
    container["volumeMounts"].append({"name": "latency", "mountPath": device})
    spec["volumes"].append({"name": "latency", "hostPath": {"path": device, "type": "CharDevice"}})
metadata = {"name": name, "namespace": "punctual"}
print(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
