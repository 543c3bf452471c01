"""The repository as lint sees it: the files that git knows, their text, and C++ with comments and
literals blanked out so that rules look at code only."""

import os
import re
import subprocess
from functools import lru_cache

CPP = ('.cpp', '.hpp', '.h', '.cu', '.cuh')
HEADERS = ('.hpp', '.h', '.cuh')
LONGEST_TEXT = 256 * 1024  # larger files are data, not something a person wrote

# A digit separator must not open a character literal, so numbers are tokens of their own.
TOKEN = re.compile(
    r'''(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)'''
    r'''|(?P<raw>\bu?8?[LU]?R"(?P<end>[^()\\\s"]{0,16})\(.*?\)(?P=end)")'''
    r'''|(?P<string>"(?:\\.|[^"\\\n])*")'''
    r'''|(?P<number>\b\d[\w.]*(?:'[\w.]+)*)'''
    r'''|(?P<char>'(?:\\.|[^'\\\n])+')''', re.S)


def blank(text):
    """As long as `text` and with the same lines, but empty."""
    return re.sub(r'[^\n]', ' ', text)


def without_comments(text):
    return TOKEN.sub(lambda m: blank(m.group()) if m.group('comment') else m.group(), text)


def code_only(text):
    """Comments gone, literals empty but still there: `f("x")` becomes `f(" ")`."""
    def replace(m):
        if m.group('comment'):
            return blank(m.group())
        if m.group('number'):
            return m.group()
        return m.group()[0] + blank(m.group()[1:-1]) + m.group()[-1]
    return TOKEN.sub(replace, text)


def line_of(text, offset):
    return text.count('\n', 0, offset) + 1


class Tree:
    """Paths are relative to the root, with '/'. `texts` maps them to their content; None stands
    for a file that is not text."""

    def __init__(self, texts, root=None):
        self.texts, self.root = texts, root
        self.paths = sorted(texts)
        self.folders = {''}
        for path in self.paths:
            parts = path.split('/')[:-1]
            self.folders.update('/'.join(parts[:i + 1]) for i in range(len(parts)))
        self.code = lru_cache(maxsize=None)(lambda path: code_only(self.texts[path]))
        self.uncommented = lru_cache(maxsize=None)(lambda path: without_comments(self.texts[path]))

    def text_files(self):
        return [p for p in self.paths if self.texts[p] is not None]

    def cpp(self):
        return [p for p in self.text_files() if p.endswith(CPP)]

    def scripts(self):
        """Python and shell programs, also those without an ending."""
        return [p for p in self.text_files() if p.endswith(('.py', '.sh'))
                or ('.' not in os.path.basename(p) and self.texts[p].startswith('#!'))]


def known_files(root):
    """What git tracks or would add; without git, everything outside build folders."""
    command = ['git', '-c', 'safe.directory=*', '-C', root, 'ls-files', '-z', '--cached', '--others',
               '--exclude-standard']
    try:
        listed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                stdin=subprocess.DEVNULL, check=True, timeout=20).stdout
        paths = listed.decode('utf-8', 'surrogateescape').split('\0')
    except (OSError, subprocess.SubprocessError):
        paths = []
        for folder, folders, names in os.walk(root):
            folders[:] = [d for d in folders
                          if not d.startswith('build') and d not in ('.git', '.cache', '__pycache__')]
            paths += [os.path.relpath(os.path.join(folder, n), root) for n in names]
    return [p for p in paths if p and os.path.isfile(os.path.join(root, p))]


def load(root):
    texts = {}
    for path in known_files(root):
        texts[path] = None
        full = os.path.join(root, path)
        if os.path.getsize(full) > LONGEST_TEXT:
            continue
        with open(full, 'rb') as file:
            data = file.read()
        if b'\0' in data:
            continue
        try:
            texts[path] = data.decode('utf-8')
        except UnicodeDecodeError:
            pass
    return Tree(texts, root)
