"""Where the time of the last test run went: seconds by file of tests, and the slowest tests."""

from collections import Counter
from xml.etree import ElementTree

from benchmarks.measure import ROOT, table

LAST_RUN = ROOT / ".pytest_cache" / "times.xml"
SLOWEST = 40


def main() -> None:
    """Print both tables; set-up and teardown count for the test that they were done for."""
    if not LAST_RUN.exists():
        raise SystemExit(f"{LAST_RUN}: no such file; run `make test` first.")
    suite = next(ElementTree.parse(LAST_RUN).iter("testsuite"))
    tests = [
        (float(case.get("time", 0)), case.get("classname", "").removeprefix("tests."), case.get("name", ""))
        for case in suite.iter("testcase")
    ]
    seconds, count = Counter[str](), Counter[str]()
    for taken, file, _ in tests:
        seconds[file] += taken
        count[file] += 1
    by_file = [[file, str(count[file]), taken] for file, taken in seconds.most_common()]
    clock = f"{sum(seconds.values()):.0f} s in all processes, {float(suite.get('time', 0)):.0f} s by the clock"
    table(f"{len(tests)} tests: {clock}", ["file", "tests", "seconds"], by_file)
    slowest = sorted(tests, reverse=True)[:SLOWEST]
    table("the slowest", ["test", "seconds"], [[f"{file}: {name}", taken] for taken, file, name in slowest])


if __name__ == "__main__":
    main()
