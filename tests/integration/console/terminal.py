"""A program in a pseudo-terminal, and what its screen shows."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

DEADLINE = 20  # seconds: only says how long a broken run takes


class Terminal:
    def __init__(self, command, rows=30, columns=110, **environment):
        self.leader, self.follower = pty.openpty()
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self.follower)
        clean = {name: value for name, value in os.environ.items() if name != 'NO_COLOR'}
        self.process = subprocess.Popen(
            command, stdin=self.follower, stdout=self.follower, stderr=self.follower,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=dict(clean, TERM='xterm', **environment))
        self.output = b''

    def resize(self, rows, columns):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def type(self, text):
        os.write(self.leader, text.encode())

    def pump(self, seconds):
        if select.select([self.leader], [], [], seconds)[0]:
            try:
                self.output += os.read(self.leader, 65536)
            except OSError:
                pass

    def until(self, condition):
        """Reads until `condition(output)`; false at the deadline."""
        end = time.monotonic() + DEADLINE
        while not condition(self.output):
            if time.monotonic() > end:
                return False
            self.pump(0.1)
        return True

    def shows(self, text):
        return self.until(lambda output: text.encode() in output)

    def forget(self):
        self.output = b''

    def end(self):
        """The exit code, after all output was read."""
        finish = time.monotonic() + DEADLINE
        while self.process.poll() is None and time.monotonic() < finish:
            self.pump(0.05)
        known = -1
        while known != len(self.output):  # what a terminal has, it may give in pieces
            known = len(self.output)
            self.pump(0.1)
        return self.process.poll()

    def is_restored(self):
        return termios.tcgetattr(self.follower) == self.modes

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self.leader)
        os.close(self.follower)


def screens(output):
    """Frames as lists of lines without colours; every frame starts at the home position."""
    text = output.decode(errors='replace')
    frames = re.split(r'\x1b\[H', text)[1:]
    return [re.sub(r'\x1b\[[0-9;?]*[a-zA-Z]', '', frame).split('\r\n') for frame in frames]
