"""Compares `overdue schedule --batch` with schedule vectors: vectors.py BINARY VECTORS.jsonl"""

import json
import subprocess
import sys


def main(binary, path):
    with open(path, encoding="utf-8") as file:
        vectors = [json.loads(line) for line in file]
    # A vector that must be refused names no zone and no start.
    questions = "".join(
        json.dumps({"expr": v["expr"], "tz": v.get("tz", "UTC"), "start": v.get("start", "2020-01-01T00:00:00Z")}) + "\n" for v in vectors
    )
    answers = subprocess.run([binary, "schedule", "--batch"], input=questions, capture_output=True, text=True, check=True).stdout.splitlines()
    failed = abs(len(vectors) - len(answers))
    for vector, line in zip(vectors, answers):
        answer = json.loads(line)
        if vector.get("error"):
            right = "error" in answer
        else:
            # The first instants of a partial vector are left out of it, so ours may have more.
            wanted, got = vector["next"], answer.get("next", [])
            got = got[: len(wanted)] if vector.get("partial") else got
            right = answer.get("kind") == vector["kind"] and got == wanted
        if not right:
            failed += 1
            print(f"wanted {vector}\n   got {line}")
    print(f"vectors: {len(vectors) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
