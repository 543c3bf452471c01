"""Sources look as clang-format writes them."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from findings import Finding

VERSION = '14'  # of Debian 12; others break some lines differently


def tool():
    """clang-format's name, or (None, why not)."""
    for name in (f'clang-format-{VERSION}', 'clang-format'):
        try:
            said = subprocess.run([name, '--version'], stdout=subprocess.PIPE, text=True, check=True,
                                  stdin=subprocess.DEVNULL, timeout=20).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        if re.search(rf'version {VERSION}\.', said):
            return name, None
    return None, f'clang-format {VERSION} is not installed (deploy/install brings it)'


def unformatted(root, paths):
    """One finding for each file that clang-format would change."""
    name, _ = tool()
    if name is None or not paths:
        return []
    # Small batches, since one long source would keep a whole half of the tree waiting.
    batches = [paths[i:i + 16] for i in range(0, len(paths), 16)]

    def check(batch):
        run = subprocess.run([name, '--dry-run', '--style=file', *batch], cwd=root, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, timeout=60, check=False)
        return run.stderr

    first = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for output in pool.map(check, batches):
            for match in re.finditer(r'^(.+?):(\d+):\d+: (?:warning|error)', output, re.M):
                first.setdefault(match.group(1), int(match.group(2)))
    return [Finding(path, line, 'format', f'run: clang-format -i {path}')
            for path, line in sorted(first.items())]
