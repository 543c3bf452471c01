"""What a rule reports."""

from typing import NamedTuple


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    message: str  # what is wrong; what to do
    warning: bool = False

    def __str__(self):
        kind = 'warning' if self.warning else 'error'
        return f'{self.path}:{self.line}: {kind}: {self.rule}: {self.message}'
