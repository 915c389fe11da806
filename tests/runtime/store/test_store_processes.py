"""The cache between threads and processes, some of which are killed."""

from pathlib import Path

import pytest
from store_entries import PRELUDE, leftovers, run

pytestmark = pytest.mark.usefixtures("own_temporary_directory")


MANY_PROCESSES = f"""{PRELUDE}
print("ready", flush=True)
sys.stdin.readline()
store = Store(root)
order = list(range(20))
random.shuffle(order)
for n in order:
    check(store.get_or_build(FOLDER, f"kernel-{{n}}", key_of(n), build(n, 0.01), {{}})[0], n)
"""


def test_ten_processes_build_each_of_twenty_kernels_once(root: Path, tmp_path: Path) -> None:
    log = tmp_path / "built"
    processes = [run(MANY_PROCESSES, root, log) for _ in range(10)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert sorted(map(int, log.read_text().split())) == list(range(20))
    assert leftovers(root) == set()


TURMOIL = f"""{PRELUDE}
from contextlib import suppress
from npu_tensor import events
from npu_tensor.runtime.store.upkeep import clear, collect

def use():
    store, found = Store(root), 0
    while time.monotonic() < end or not found:
        n = random.randrange(20)
        if random.random() < 0.5:
            entry = store.get(FOLDER, "kernel", key_of(n))
        else:
            entry, _ = store.get_or_build(FOLDER, "kernel", key_of(n), build(n), {{}})
        if entry is not None:
            try:
                check(entry, n)
                found += 1
            except FileNotFoundError:  # removed since it was found
                pass

def remove():
    while time.monotonic() < end:
        time.sleep(random.uniform(0, 0.1))
        with suppress(BlockingIOError):  # Who writes looks at the size too.
            clear(root) if random.random() < 0.3 else collect(root, 2_000_000)

damaged = []
end = time.monotonic() + 2
children = []
for work in (remove, use, use, use):
    child = os.fork()
    if child == 0:
        with events.listen(lambda event: damaged.append(event) if isinstance(event, events.CacheDamaged) else None):
            work()
        assert not damaged, damaged
        os._exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
"""


def test_clearing_and_evicting_while_others_build_and_load(root: Path, tmp_path: Path) -> None:
    process = run(TURMOIL, root, tmp_path / "built", TMPDIR=str(tmp_path / "temporary"))
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert leftovers(root) == set()


KILLED_WHILE_WRITING = f"""{PRELUDE}
replace = os.replace

def replace_or_die(step):
    calls = iter(range(100))
    def instead(source, target):
        call = next(calls)
        if step == 2 * call:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
        if step == 2 * call + 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return instead

LAST = 7  # after the last of four renames: three files and the sidecar
for case, old_entry in enumerate((False, True)):
    for step in range(LAST + 1):
        n = 100 * case + step
        if old_entry:
            Store(root).get_or_build(FOLDER, "kernel", key_of(n), build(n), {{}})
        child = os.fork()
        if child == 0:
            os.replace = replace_or_die(step)
            Store(root).get_or_build(FOLDER, "kernel", key_of(n), build(n), {{}}, force=True)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        store = Store(root)
        assert (store.get(FOLDER, "kernel", key_of(n)) is not None) == (step == LAST), (case, step)
        entry, built = store.get_or_build(FOLDER, "kernel", key_of(n), build(n), {{}})
        check(entry, n)
        assert built == (step < LAST)
"""


def test_a_builder_may_be_killed_before_and_after_each_rename(root: Path, tmp_path: Path) -> None:
    process = run(KILLED_WHILE_WRITING, root, tmp_path / "built", TMPDIR=str(tmp_path / "temporary"))
    process.communicate(timeout=60)
    assert process.returncode == 0
