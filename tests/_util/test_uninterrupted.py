"""Ctrl-C at many moments of a process's first computation, after which the next one works."""

import os
import signal
import threading

import pytest
from running import needs_compiler, python

from npu_tensor._util.interrupts import uninterrupted

MOMENTS = 400 if os.environ.get("NPU_TENSOR_TEST_ALL") == "1" else 8
"""Interrupts per kind of work."""

PROGRAM = """
import os, signal, sys, threading, traceback

work, moments = sys.argv[1], int(sys.argv[2])


class Imports:
    '''A real signal, when the module of this number is looked for, in whatever thread.'''

    def __init__(self, number):
        self.number, self.count = number, 0

    def find_spec(self, name, path=None, target=None):
        self.count += 1
        if self.count == self.number:
            os.kill(os.getpid(), signal.SIGINT)

    def __enter__(self):
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *_):
        sys.meta_path.remove(self)


class Calls:
    '''KeyboardInterrupt at the call of this number in this thread, the only one in which signals are handled.'''

    def __init__(self, number):
        self.number, self.count = number, 0

    def __call__(self, frame, event, argument):
        if event == "call" and frame.f_code.co_name != "__del__":
            self.count += 1
            if self.count == self.number:
                raise KeyboardInterrupt

    def __enter__(self):
        sys.setprofile(self)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


def compute():
    import npu_tensor as nt

    with nt.default_device("sim:npu2" if work == "simulated" else "cpu"):
        x = nt.tensor([[1.0, -2.0, 3.0]]).to(nt.bfloat16)
        w = nt.tensor([[1.0], [2.0], [0.5]]).to(nt.bfloat16)
        assert ((x + 1) @ w).tolist() == [[2.0]]
    assert nt.nn.functional and nt.linalg.norm


if work != "package":
    import npu_tensor


def attempt(interrupter):
    with interrupter as reached:
        compute()
    return reached.count


def child(task):
    read, write = os.pipe()
    if os.fork() == 0:
        signal.alarm(100)
        try:
            os.write(write, str(task()).encode())
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(write)
    said = os.read(read, 1000).decode()
    os.close(read)
    os.wait()
    return said


def interrupted(interrupter):
    try:
        attempt(interrupter)
    except KeyboardInterrupt:
        pass
    compute()
    other = threading.Thread(target=compute)
    other.start()
    other.join(30)
    return "locked" if other.is_alive() else "fine"


for kind in (Imports,) if work == "package" else (Imports, Calls):
    total = int(child(lambda: attempt(kind(-1))))
    for number in range(1, total + 1, max(1, total // moments)):
        if (said := child(lambda: interrupted(kind(number)))) != "fine":
            print(kind.__name__, number, said)
print("tried all")
"""


@pytest.mark.parametrize("work", ["package", "computation", pytest.param("simulated", marks=needs_compiler)])
def test_interrupted_work_can_be_repeated(work: str) -> None:
    """`package` is `import npu_tensor` itself, in a process that has not imported NumPy."""
    result = python("-c", PROGRAM, work, MOMENTS, exit_code=None)
    assert result.stdout == "tried all\n", result.stderr


def test_an_interrupt_is_raised_when_the_function_has_ended() -> None:
    seen = []

    @uninterrupted
    def work(number: int) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        seen.append(number)
        return number

    with pytest.raises(KeyboardInterrupt):
        work(1)
    assert seen == [1]
