#!/usr/bin/env python3
"""Lists what a release binary is built from, in CycloneDX 1.5, from cargo's own metadata: packaging/sbom.py TARGET

Only what is linked for this target is listed: dependencies for tests and for building are not.
"""
import json
import subprocess
import sys

target = sys.argv[1]
command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
main = next(package["id"] for package in metadata["packages"] if package["name"] == "overdue")


def linked(node):
    """Returns the packages that this one is linked with. A dependency for tests or for building has a kind."""
    return [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


seen, waiting = {main}, [main]
while waiting:
    for other in linked(nodes[waiting.pop()]):
        if other not in seen:
            seen.add(other)
            waiting.append(other)

# The checksums are from Cargo.lock. cargo has verified them.
lock, entry = {}, {}
for line in open(metadata["workspace_root"] + "/Cargo.lock"):
    if line.startswith("[[package]]"):
        entry = {}
    elif " = " in line:
        key, value = line.strip().split(" = ", 1)
        entry[key] = value.strip('"')
        if key == "checksum":
            lock[entry["name"], entry["version"]] = entry["checksum"]


def component(identity):
    package = packages[identity]
    about = {"type": "library", "bom-ref": reference(package), "name": package["name"], "version": package["version"], "purl": reference(package)}
    if package["license"]:
        about["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = lock.get((package["name"], package["version"]))
    if checksum:
        about["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return about


others = sorted(seen - {main}, key=lambda identity: reference(packages[identity]))
bom = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {"component": {**component(main), "type": "application"}, "properties": [{"name": "target", "value": target}]},
    "components": [component(identity) for identity in others],
    "dependencies": [
        {"ref": reference(packages[identity]), "dependsOn": sorted(reference(packages[other]) for other in linked(nodes[identity]) if other in seen)}
        for identity in [main, *others]
    ],
}
json.dump(bom, sys.stdout, indent=1)
print()
