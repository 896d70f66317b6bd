"""``python -m checker [files]`` rewrites what the code gives; ``--check`` lists what is wrong."""

import argparse
import sys
from pathlib import Path

from checker.check import check
from checker.document import Page, parse
from checker.mutate import code_survivors, orphans
from checker.project import Project
from checker.redraw import redraw
from checker.run import run_once


def main() -> int:
    reader = argparse.ArgumentParser(prog="checker", description=__doc__)
    reader.add_argument("files", nargs="*", type=Path, help="all documents if none is named")
    reader.add_argument("--check", action="store_true", help="change nothing, list all faults")
    reader.add_argument(
        "--mutate", action="store_true", help="list the digits in code that nothing depends on"
    )
    asked = reader.parse_args()
    for path in asked.files:
        if not path.is_file():
            reader.error(f"no file {path}")
    paths = [path.resolve() for path in asked.files] or Project.at().documents()
    if asked.mutate:
        count = 0
        for path in paths:
            print(f"mutate {path.name}", flush=True)
            for line in code_survivors(path, Project.at()):
                print(line, flush=True)
                count += 1
        print(f"{count} digits that no output depends on" if count else "every digit matters")
        return min(count, 1)
    if not asked.check:
        for change in redraw(paths, Project.at(), lambda name: print(f"redraw {name}", flush=True)):
            print(f"  {change}")
    project, pages, count = Project.at(), list[Page](), 0
    for path in paths:
        page = parse(path.read_text("utf-8"), path, project)
        pages.append(page)
        print(f"check {page.name}", flush=True)
        for fault in check(page, run_once(page)):
            if not fault.message.startswith("not run:"):
                print(f"{page.name}:{fault.line}: {fault.message}", file=sys.stderr)
            count += 1
    if not asked.files:
        for message in orphans(project, pages):
            print(message, file=sys.stderr)
            count += 1
    sys.stderr.flush()
    print(f"{count} fault{'s' * (count != 1)}" if count else "all true")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
