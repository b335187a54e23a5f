#!/usr/bin/env python3
"""Says what the files of a release were built from, as a statement of in-toto with a SLSA provenance (v1):

    packaging/provenance.py DIRECTORY TARGET... > provenance.intoto.json

It has no times, so that two builds of a commit give the same statement. It is not signed: the workflow
of a release adds a signed one.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys

directory, targets = pathlib.Path(sys.argv[1]), sys.argv[2:]


def digest(path):
    return {"sha256": hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


source = os.environ.get("OVERDUE_SOURCE", "git+https://example.org/overdue")
statement = {
    "_type": "https://in-toto.io/Statement/v1",
    "subject": [{"name": path.name, "digest": digest(path)} for path in sorted(directory.iterdir()) if path.is_file()],
    "predicateType": "https://slsa.dev/provenance/v1",
    "predicate": {
        "buildDefinition": {
            "buildType": source + "#packaging/release.sh",
            "externalParameters": {"targets": targets},
            "internalParameters": {"rustc": output("rustc", "--version"), "cargo": output("cargo", "--version")},
            "resolvedDependencies": [
                {"uri": source, "digest": {"gitCommit": output("git", "rev-parse", "HEAD")}},
                {"uri": "Cargo.lock", "digest": digest("Cargo.lock")},
            ],
        },
        "runDetails": {"builder": {"id": os.environ.get("OVERDUE_BUILDER", source + "#local")}},
    },
}
json.dump(statement, sys.stdout, indent=1)
print()
