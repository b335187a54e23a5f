"""Compares `overdue schedule --batch` with schedule vectors: vectors.py BINARY VECTORS.jsonl"""

import json
import subprocess
import sys


def main(binary, path):
    with open(path, encoding="utf-8") as file:
        vectors = [json.loads(line) for line in file]
    # A vector of an invalid expression has no time zone and no start.
    requests = "".join(
        json.dumps({"expr": v["expr"], "tz": v.get("tz", "UTC"), "start": v.get("start", "2020-01-01T00:00:00Z")}) + "\n" for v in vectors
    )
    answers = subprocess.run([binary, "schedule", "--batch"], input=requests, capture_output=True, text=True, check=True).stdout.splitlines()
    failed = abs(len(vectors) - len(answers))
    for vector, line in zip(vectors, answers):
        answer = json.loads(line)
        if vector.get("error"):
            is_correct = "error" in answer
        else:
            # A partial vector lists only the first times, so ours may have more.
            expected, found = vector["next"], answer.get("next", [])
            found = found[: len(expected)] if vector.get("partial") else found
            is_correct = answer.get("kind") == vector["kind"] and found == expected
        if not is_correct:
            failed += 1
            print(f"expected {vector}\n     found {line}")
    print(f"vectors: {len(vectors) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
