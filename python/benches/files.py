"""The time of a transfer by `rc3.send` and by the command, one after the other, to a receiver by the command, over loopback.

    python benches/files.py PATH-OF-RC3 [MEGABYTES [RUNS]]
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rc3


def by_python(command: str, source: Path, ticket: str) -> None:
    rc3.send(source, ticket, no_path_memory=True)


def by_command(command: str, source: Path, ticket: str) -> None:
    subprocess.run([command, "send", "--quiet", "--no-path-memory", source, ticket], check=True)


WAYS = {"rc3.send": by_python, "rc3 send": by_command}


def transfer(way: str, command: str, source: Path, into: Path) -> float:
    receiving = [command, "recv", "--quiet", "--bind=127.0.0.1", "--no-path-memory", f"--dir={into}"]
    with subprocess.Popen(receiving, stdout=subprocess.PIPE, text=True) as receiver:
        ticket = receiver.stdout.readline().strip()
        begin = time.perf_counter()
        WAYS[way](command, source, ticket)
        receiver.wait()
        return time.perf_counter() - begin


def main(command: str, megabytes: int = 500, runs: int = 3) -> None:
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "source"
        with source.open("wb") as file:
            for _ in range(megabytes):
                file.write(os.urandom(1_000_000))
        for _ in range(runs):
            for way, taken in times.items():
                into = Path(tempfile.mkdtemp(dir=directory))
                taken.append(transfer(way, command, source, into))
                (into / "source").unlink()
    for way, taken in times.items():
        print(f"{way}  {megabytes / statistics.median(taken):6.1f} MB/s  of {[round(t, 2) for t in taken]} s")
    print(f"ratio {statistics.median(times['rc3 send']) / statistics.median(times['rc3.send']):.2f}")


main(sys.argv[1], *map(int, sys.argv[2:]))
