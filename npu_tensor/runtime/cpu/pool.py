"""A fork-join thread pool in machine code: LLVM IR text, compiled by `Engine`; no C compiler is involved.

A kernel is a native function `void kernel(ptr slots, ptr meta, i64 begin, i64 end)` that handles the items
begin <= i < end of a loop over n items. It may be called for any sub-range, by several threads at once.

How a loop runs
    The caller publishes the job, opens it, and works on it like every worker: a thread claims the next
    `grain` items by an atomic addition until none are left. Then the caller closes the job and waits for the
    workers that are *inside* it. It never waits for a worker that has not entered yet, so a worker that the
    operating system keeps off the CPU delays nobody; this is what keeps the pool fast on a busy machine,
    where pools with fixed shares and barriers fall to the pace of the scheduler.
    Idle workers watch for a new job for about 200 us and then sleep in a futex.

Where workers run
    Linux likes to wake a thread on the CPU of the one that wakes it, and there a worker waits until the
    caller, whom it should help, has done everything alone. So before a worker is woken, and when it is
    started, the caller's CPU is taken from its affinity mask; once awake the worker has its old mask back.
    When the last worker inside loses its CPU to another process, in the middle of its piece, the caller
    moves it to the CPU on which it waits. The mask that a worker has, from its start or from whoever pinned
    it, is never exceeded. Where the system refuses any of this, the scheduler decides.

Who may call
    Any thread, at any time. One job runs in parallel at a time; a call that finds the pool busy (another
    Python thread, or a kernel that starts a loop itself) runs its loop alone, in its own thread.
    After fork() the child has no workers and starts its own when it needs them.
    Workers are started at the first parallel loop, with all asynchronous signals blocked, so that Ctrl-C
    reaches the Python main thread, and they do not delay the end of the process.

Elsewhere than on Linux on x86-64 or AArch64 there is no futex; all loops then run in the calling thread.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Final

from npu_tensor.affinity import available_cores
from npu_tensor.errors import ArgumentError
from npu_tensor.forks import in_child
from npu_tensor.runtime.cpu.engine import Engine
from npu_tensor.runtime.cpu.launch import launcher_ir, make_builtin, python_symbols, symbol_addresses

__all__ = ["Pool"]

# How often an idle worker looks for a new job before it sleeps: about 200 us on Zen 4, longer than a few
# lines of Python between two kernels and shorter than a scheduler slice. Waking takes 50 to 100 us.
_WORKER_SPINS = 8000
# How often the caller looks again for the last worker before it sleeps. A worker on a core of its own is done
# by then; one that was put off its core gets the caller's.
_CALLER_SPINS = 1000
# How long the caller sleeps before it concludes that the last worker waits for a CPU: longer than most pieces,
# much shorter than the 3 to 4 ms that a scheduler gives to a competitor.
_PULL_AFTER_NANOSECONDS = 100_000

# glibc takes a thread's default stack from `ulimit -s`, musl gives 128 KiB; row kernels need 256 KiB.
# Only touched pages cost memory.
_STACK_BYTES = 8 << 20

# More than any one machine has cores; keeps a slip of the pen from starting a million threads.
_MAX_THREADS = 4096

_FUTEX_SYSCALL = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAIT_PRIVATE = 128
_FUTEX_WAKE_PRIVATE = 129
_PTHREAD_CREATE_DETACHED = 1

# The states of a worker's placement. Only the worker leaves _AWAKE, _PLACED and _PULLED. The caller turns
# _ASLEEP or _WORKING into _MOVING, which is like a lock, and that into _PLACED (kept off the caller's CPU),
# _PULLED (bound to it) or back.
_AWAKE, _ASLEEP, _WORKING, _MOVING, _PLACED, _PULLED = range(6)

# Each costs the caller about 1 us; where there are more cores than that, idle ones are easy to find.
_PLACED_WORKERS = 16
# Room for 1024 CPUs, like glibc's cpu_set_t.
_MASK_BYTES = 128
_SIG_SETMASK = 2

# A faulting kernel should still reach faulthandler, so these stay unblocked: SIGILL, SIGBUS, SIGFPE, SIGSEGV.
_SYNCHRONOUS_SIGNALS = (4, 7, 8, 11)

_SPIN_HINT = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}

_POOL_FUNCTIONS = ("parallel_for", "set_threads", "reset_after_fork", "started_workers")


def _pool_ir(architecture: str) -> str:
    """The pool for Linux.

    %state has bit 31 (OPEN) while a job accepts workers, and below it the number of workers inside. A worker
    enters by adding one while OPEN is set, in a single compare-and-exchange; it reads the job only inside.
    The caller starts a new job only when nobody is inside, so the job's fields need no lock.

    Two pairs of variables follow the same pattern against lost wake-ups, which needs sequentially consistent
    order: the one who sleeps announces it (%sleepers, %caller_sleeps) and then looks again at the variable it
    waits for (%generation, %state); the one who changes that variable looks at the announcement afterwards.
    """
    declare_hint, hint = _SPIN_HINT[architecture]
    futex = _FUTEX_SYSCALL[architecture]
    mask_words = _MASK_BYTES // 8
    blocked = -1
    for signal in _SYNCHRONOUS_SIGNALS:
        blocked &= ~(1 << (signal - 1))
    return f"""
{declare_hint}
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_getaffinity_np(i64, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @sched_getcpu()

%job = type {{ ptr, ptr, ptr, i64, i64 }}            ; kernel, slots, meta, n, grain
@job = internal global %job zeroinitializer, align 64
@state = internal global i32 0, align 64
@generation = internal global i32 0, align 64        ; grows by one with every job
@next_item = internal global i64 0, align 64
@sleepers = internal global i32 0, align 64          ; workers that sleep, or are about to, in %generation
@caller_sleeps = internal global i32 0, align 64
@busy = internal global i32 0, align 64              ; 1 while a caller owns the pool
@threads = internal global i32 1, align 64           ; wanted, including the caller
@workers = internal global i32 0                     ; started so far; changed only by the owner of the pool

%cpus = type [{mask_words} x i64]
%placement = type {{ i32, i64, %cpus }}               ; state, pthread_t, the worker's mask while it is changed
@placements = internal global [{_PLACED_WORKERS + 1} x %placement] zeroinitializer, align 64
@pull_after = internal constant [2 x i64] [i64 0, i64 {_PULL_AFTER_NANOSECONDS}]

; ---- futex -------------------------------------------------------------------------------------------------
define internal void @wait_while(ptr %word, i32 %value, ptr %timeout) {{
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 {_FUTEX_WAIT_PRIVATE}, i32 %value,
                               ptr %timeout, ptr null, i64 0)
  ret void
}}

define internal void @wake(ptr %word, i64 %count) {{
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i64 {_FUTEX_WAKE_PRIVATE}, i64 %count,
                               ptr null, ptr null, i64 0)
  ret void
}}

; ---- the work, for caller and workers alike ----------------------------------------------------------------
define internal void @work() noinline {{
entry:
  %kernel.at = getelementptr %job, ptr @job, i32 0, i32 0
  %slots.at = getelementptr %job, ptr @job, i32 0, i32 1
  %meta.at = getelementptr %job, ptr @job, i32 0, i32 2
  %n.at = getelementptr %job, ptr @job, i32 0, i32 3
  %grain.at = getelementptr %job, ptr @job, i32 0, i32 4
  %kernel = load ptr, ptr %kernel.at
  %slots = load ptr, ptr %slots.at
  %meta = load ptr, ptr %meta.at
  %n = load i64, ptr %n.at
  %grain = load i64, ptr %grain.at
  br label %claim
claim:
  %begin = atomicrmw add ptr @next_item, i64 %grain seq_cst
  %left = sub i64 %n, %begin
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %run, label %done
run:
  %last = icmp slt i64 %left, %grain
  %count = select i1 %last, i64 %left, i64 %grain
  %end = add i64 %begin, %count
  call void %kernel(ptr %slots, ptr %meta, i64 %begin, i64 %end)
  br label %claim
done:
  ret void
}}

; ---- where workers run -------------------------------------------------------------------------------------
; The entry of worker 1, 2, ...; entry 0 is for all workers beyond the table, which nobody moves.
define internal ptr @placement_of(i32 %index) {{
  %listed = icmp ule i32 %index, {_PLACED_WORKERS}
  %entry = select i1 %listed, i32 %index, i32 0
  %placement = getelementptr [{_PLACED_WORKERS + 1} x %placement], ptr @placements, i32 0, i32 %entry
  ret ptr %placement
}}

; %target = the CPUs of %source that are %cpu (%same = true), or that are not.
define internal void @select_cpus(ptr %target, ptr %source, i32 %cpu, i1 %same) {{
entry:
  %cpu.word = lshr i32 %cpu, 6
  %cpu.bit = and i32 %cpu, 63
  %shift = zext i32 %cpu.bit to i64
  %bit = shl i64 1, %shift
  %flip = select i1 %same, i64 0, i64 -1
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i.next, %loop ]
  %here = icmp eq i32 %i, %cpu.word
  %only = select i1 %here, i64 %bit, i64 0
  %wanted = xor i64 %only, %flip
  %source.at = getelementptr i64, ptr %source, i32 %i
  %target.at = getelementptr i64, ptr %target, i32 %i
  %word = load i64, ptr %source.at
  %kept = and i64 %word, %wanted
  store i64 %kept, ptr %target.at
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, {mask_words}
  br i1 %more, label %loop, label %done
done:
  ret void
}}

; Move a worker, which is in state {_MOVING}, to %cpu or away from it. Its state is then %moved, or %kept when
; the system refuses: most of all when no CPU would be left.
define internal void @move(ptr %placement, i32 %cpu, i1 %same, i32 %kept, i32 %moved) {{
entry:
  %target = alloca %cpus
  %thread.at = getelementptr %placement, ptr %placement, i32 0, i32 1
  %mask = getelementptr %placement, ptr %placement, i32 0, i32 2
  %thread = load i64, ptr %thread.at
  %unknown = call i32 @pthread_getaffinity_np(i64 %thread, i64 {_MASK_BYTES}, ptr %mask)
  %known = icmp eq i32 %unknown, 0
  br i1 %known, label %change, label %leave
change:
  call void @select_cpus(ptr %target, ptr %mask, i32 %cpu, i1 %same)
  %refused = call i32 @pthread_setaffinity_np(i64 %thread, i64 {_MASK_BYTES}, ptr %target)
  %accepted = icmp eq i32 %refused, 0
  %state = select i1 %accepted, i32 %moved, i32 %kept
  br label %leave
leave:
  %result = phi i32 [ %kept, %entry ], [ %state, %change ]
  store atomic i32 %result, ptr %placement seq_cst, align 8
  ret void
}}

; Move all workers in one state to the CPU of the calling thread or away from it.
define internal void @move_all(i1 %same, i32 %from, i32 %moved) noinline {{
entry:
  %cpu = call i32 @sched_getcpu()
  %started = load i32, ptr @workers
  %many = icmp ugt i32 %started, {_PLACED_WORKERS}
  %last = select i1 %many, i32 {_PLACED_WORKERS}, i32 %started
  br label %loop
loop:
  %index = phi i32 [ 1, %entry ], [ %index.next, %next ]
  %more = icmp ule i32 %index, %last
  br i1 %more, label %claim, label %done
claim:
  %placement = call ptr @placement_of(i32 %index)
  %attempt = cmpxchg ptr %placement, i32 %from, i32 {_MOVING} seq_cst seq_cst
  %claimed = extractvalue {{ i32, i1 }} %attempt, 1
  br i1 %claimed, label %move, label %next
move:
  call void @move(ptr %placement, i32 %cpu, i1 %same, i32 %from, i32 %moved)
  br label %next
next:
  %index.next = add i32 %index, 1
  br label %loop
done:
  ret void
}}

; A worker returns to state {_AWAKE} and to its own mask. One that is being moved at this moment does so later.
define internal void @settle(ptr %placement) noinline {{
entry:
  %others = alloca %cpus
  %mask = getelementptr %placement, ptr %placement, i32 0, i32 2
  %state = load atomic i32, ptr %placement seq_cst, align 8
  switch i32 %state, label %done [
    i32 {_ASLEEP}, label %simple
    i32 {_WORKING}, label %simple
    i32 {_PLACED}, label %restore
    i32 {_PULLED}, label %make_room
  ]
simple:
  cmpxchg ptr %placement, i32 %state, i32 {_AWAKE} seq_cst seq_cst
  ret void
make_room:
  ; The caller goes on here, on its own CPU.
  %cpu = call i32 @sched_getcpu()
  call void @select_cpus(ptr %others, ptr %mask, i32 %cpu, i1 false)
  call i32 @sched_setaffinity(i32 0, i64 {_MASK_BYTES}, ptr %others)
  br label %restore
restore:
  call i32 @sched_setaffinity(i32 0, i64 {_MASK_BYTES}, ptr %mask)
  store atomic i32 {_AWAKE}, ptr %placement seq_cst, align 8
  br label %done
done:
  ret void
}}

; ---- a worker: %self is its number, from 1; it takes part while %self < @threads ---------------------------
define internal ptr @worker(ptr %self) {{
entry:
  %index = ptrtoint ptr %self to i32
  %placement = call ptr @placement_of(i32 %index)
  ; Start as if one job had been missed: this thread was started for a job that is open already.
  %now = load atomic i32, ptr @generation seq_cst, align 4
  %before = sub i32 %now, 1
  br label %idle
idle:
  %seen = phi i32 [ %before, %entry ], [ %seen, %parked ], [ %seen.new, %look ], [ %seen.new, %leave ],
                  [ %seen.new, %wake_caller ]
  call void @settle(ptr %placement)
  %wanted = load atomic i32, ptr @threads seq_cst, align 4
  %takes_part = icmp slt i32 %index, %wanted
  br i1 %takes_part, label %watch, label %parked
parked:
  call void @wait_while(ptr @threads, i32 %wanted, ptr null)
  br label %idle
watch:
  %spins = phi i32 [ 0, %idle ], [ %spins.next, %again ], [ 0, %slept ]
  %seen.new = load atomic i32, ptr @generation seq_cst, align 4
  %news = icmp ne i32 %seen.new, %seen
  br i1 %news, label %look, label %nothing
nothing:
  %tired = icmp sge i32 %spins, {_WORKER_SPINS}
  br i1 %tired, label %sleep, label %again
again:
  {hint}
  %spins.next = add i32 %spins, 1
  br label %watch
sleep:
  call void @settle(ptr %placement)
  cmpxchg ptr %placement, i32 {_AWAKE}, i32 {_ASLEEP} seq_cst seq_cst
  atomicrmw add ptr @sleepers, i32 1 seq_cst
  call void @wait_while(ptr @generation, i32 %seen, ptr null)
  br label %slept
slept:
  atomicrmw sub ptr @sleepers, i32 1 seq_cst
  call void @settle(ptr %placement)
  br label %watch
look:
  %state = load atomic i32, ptr @state seq_cst, align 4
  %is_open = icmp slt i32 %state, 0
  br i1 %is_open, label %enter, label %idle
enter:
  %inside = add i32 %state, 1
  %attempt = cmpxchg ptr @state, i32 %state, i32 %inside seq_cst seq_cst
  %entered = extractvalue {{ i32, i1 }} %attempt, 1
  br i1 %entered, label %join, label %look
join:
  cmpxchg ptr %placement, i32 {_AWAKE}, i32 {_WORKING} seq_cst seq_cst
  call void @work()
  br label %leave
leave:
  %state.before = atomicrmw sub ptr @state, i32 1 seq_cst
  %last_one = icmp eq i32 %state.before, 1
  %asleep = load atomic i32, ptr @caller_sleeps seq_cst, align 4
  %somebody = icmp ne i32 %asleep, 0
  %must_wake = and i1 %last_one, %somebody
  br i1 %must_wake, label %wake_caller, label %idle
wake_caller:
  call void @wake(ptr @state, i64 1)
  br label %idle
}}

; ---- start what is missing; on failure go on with the threads there are ------------------------------------
define internal void @start_workers(i32 %wanted) noinline {{
entry:
  %attributes = alloca [16 x i64]
  %signals = alloca [16 x i64]
  %old_signals = alloca [16 x i64]
  %thread = alloca i64
  %cpu = call i32 @sched_getcpu()
  call void @fill_signals(ptr %signals)
  call i32 @pthread_attr_init(ptr %attributes)
  call i32 @pthread_attr_setdetachstate(ptr %attributes, i32 {_PTHREAD_CREATE_DETACHED})
  call i32 @pthread_attr_setstacksize(ptr %attributes, i64 {_STACK_BYTES})
  ; A thread inherits the signal mask of the one that starts it.
  call i32 @pthread_sigmask(i32 {_SIG_SETMASK}, ptr %signals, ptr %old_signals)
  br label %loop
loop:
  %started = load i32, ptr @workers
  %index = add i32 %started, 1
  %missing = icmp slt i32 %index, %wanted
  br i1 %missing, label %start, label %done
start:
  %index.wide = zext i32 %index to i64
  %self = inttoptr i64 %index.wide to ptr
  %placement = call ptr @placement_of(i32 %index)
  %listed = icmp ule i32 %index, {_PLACED_WORKERS}
  %first_state = select i1 %listed, i32 {_MOVING}, i32 {_AWAKE}
  store atomic i32 %first_state, ptr %placement seq_cst, align 8
  %error = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @worker, ptr %self)
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %give_up, label %count
count:
  store i32 %index, ptr @workers
  br i1 %listed, label %move, label %loop
move:
  %thread.value = load i64, ptr %thread
  %thread.at = getelementptr %placement, ptr %placement, i32 0, i32 1
  store i64 %thread.value, ptr %thread.at
  call void @move(ptr %placement, i32 %cpu, i1 false, i32 {_WORKING}, i32 {_PLACED})
  br label %loop
give_up:
  store atomic i32 %index, ptr @threads seq_cst, align 4
  br label %done
done:
  call i32 @pthread_sigmask(i32 {_SIG_SETMASK}, ptr %old_signals, ptr null)
  call i32 @pthread_attr_destroy(ptr %attributes)
  ret void
}}

define internal void @fill_signals(ptr %set) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %word = getelementptr i64, ptr %set, i64 %i
  store i64 -1, ptr %word
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 16
  br i1 %more, label %loop, label %done
done:
  store i64 {blocked}, ptr %set
  ret void
}}

; ---- the loop ----------------------------------------------------------------------------------------------
define void @parallel_for(ptr %kernel, ptr %slots, ptr %meta, i64 %n, i64 %grain) {{
entry:
  %wanted = load atomic i32, ptr @threads seq_cst, align 4
  %single = icmp sle i32 %wanted, 1
  %small = icmp sle i64 %n, %grain
  %alone = or i1 %single, %small
  br i1 %alone, label %inline, label %acquire
acquire:
  %owner = atomicrmw xchg ptr @busy, i32 1 seq_cst
  %taken = icmp ne i32 %owner, 0
  br i1 %taken, label %inline, label %prepare
inline:
  call void %kernel(ptr %slots, ptr %meta, i64 0, i64 %n)
  ret void
prepare:
  %kernel.at = getelementptr %job, ptr @job, i32 0, i32 0
  %slots.at = getelementptr %job, ptr @job, i32 0, i32 1
  %meta.at = getelementptr %job, ptr @job, i32 0, i32 2
  %n.at = getelementptr %job, ptr @job, i32 0, i32 3
  %grain.at = getelementptr %job, ptr @job, i32 0, i32 4
  store ptr %kernel, ptr %kernel.at
  store ptr %slots, ptr %slots.at
  store ptr %meta, ptr %meta.at
  store i64 %n, ptr %n.at
  store i64 %grain, ptr %grain.at
  store atomic i64 0, ptr @next_item seq_cst, align 8
  store atomic i32 {-(1 << 31)}, ptr @state seq_cst, align 4
  atomicrmw add ptr @generation, i32 1 seq_cst
  %started = load i32, ptr @workers
  %enough = add i32 %started, 1
  %missing = icmp slt i32 %enough, %wanted
  br i1 %missing, label %start, label %rouse
start:
  call void @start_workers(i32 %wanted)
  br label %rouse
rouse:
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %none = icmp eq i32 %asleep, 0
  br i1 %none, label %go, label %wake_some
wake_some:
  call void @move_all(i1 false, i32 {_ASLEEP}, i32 {_PLACED})
  ; No more than there are pieces for, besides the caller's.
  %rest = sub i64 %n, 1
  %helpers = udiv i64 %rest, %grain
  %many = icmp ugt i64 %helpers, 2147483647
  %count = select i1 %many, i64 2147483647, i64 %helpers
  call void @wake(ptr @generation, i64 %count)
  br label %go
go:
  call void @work()
  %closing = atomicrmw and ptr @state, i32 {(1 << 31) - 1} seq_cst
  br label %wait
wait:
  %spins = phi i32 [ 0, %go ], [ %spins.next, %again ]
  %inside = load atomic i32, ptr @state seq_cst, align 4
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %done, label %still
still:
  %tired = icmp sge i32 %spins, {_CALLER_SPINS}
  br i1 %tired, label %sleep, label %again
again:
  {hint}
  %spins.next = add i32 %spins, 1
  br label %wait
sleep:
  ; A worker has been put off the CPU in the middle of its piece. Sleeping leaves it this core.
  store atomic i32 1, ptr @caller_sleeps seq_cst, align 4
  call void @wait_while(ptr @state, i32 %inside, ptr @pull_after)
  %inside.later = load atomic i32, ptr @state seq_cst, align 4
  %one_left = icmp eq i32 %inside.later, 1
  br i1 %one_left, label %pull, label %check
pull:
  ; Only the last one: several at work must not be gathered on one CPU.
  call void @move_all(i1 true, i32 {_WORKING}, i32 {_PULLED})
  br label %check
check:
  %inside.now = load atomic i32, ptr @state seq_cst, align 4
  %empty.now = icmp eq i32 %inside.now, 0
  br i1 %empty.now, label %awake, label %doze
doze:
  call void @wait_while(ptr @state, i32 %inside.now, ptr null)
  br label %check
awake:
  store atomic i32 0, ptr @caller_sleeps seq_cst, align 4
  br label %done
done:
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}}

; ---- control -----------------------------------------------------------------------------------------------
define void @set_threads(i32 %count) {{
  store atomic i32 %count, ptr @threads seq_cst, align 4
  atomicrmw add ptr @generation, i32 1 seq_cst           ; surplus workers notice, and park
  call void @wake(ptr @generation, i64 2147483647)
  call void @wake(ptr @threads, i64 2147483647)          ; parked ones notice, and return
  ret void
}}

define void @reset_after_fork() {{
  store atomic i32 0, ptr @state seq_cst, align 4
  store atomic i32 0, ptr @sleepers seq_cst, align 4
  store atomic i32 0, ptr @caller_sleeps seq_cst, align 4
  store i32 0, ptr @workers
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}}

define i32 @started_workers() {{
  %count = load i32, ptr @workers
  ret i32 %count
}}
"""


_SEQUENTIAL_POOL_IR = """
define void @parallel_for(ptr %kernel, ptr %slots, ptr %meta, i64 %n, i64 %grain) {
  call void %kernel(ptr %slots, ptr %meta, i64 0, i64 %n)
  ret void
}

define void @set_threads(i32 %count) {
  ret void
}

define void @reset_after_fork() {
  ret void
}

define i32 @started_workers() {
  ret i32 0
}
"""

_SYSTEM_SYMBOLS = (
    "syscall",
    "pthread_create",
    "pthread_attr_init",
    "pthread_attr_destroy",
    "pthread_attr_setdetachstate",
    "pthread_attr_setstacksize",
    "pthread_sigmask",
    "pthread_getaffinity_np",
    "pthread_setaffinity_np",
    "sched_setaffinity",
    "sched_getcpu",
)


_resets: Final[dict[int, Callable[[], None]]] = {}
"""By address, what tells a pool that its threads are not in a forked process: machine code is there for ever."""


def _reset_all() -> None:
    for reset in _resets.values():
        reset()


in_child(_reset_all)


class Pool:
    """The thread pool and its launcher.

    launch  `launch(kernel_address, meta_address, n, grain, *slots)` runs a kernel over n items, in parallel
            in pieces of `grain` items when n > grain. Slots (at most 64) are ints, stored as int64, or
            floats, stored as float64; the kernel gets a pointer to them, and `meta_address` as it is. Returns
            None. Lets other Python threads run while n > grain, so the caller must keep the memory behind the
            slots alive. Raises TypeError (number or types of arguments), OverflowError (an int of more than
            64 bits), ValueError (no kernel, n < 0, grain < 1). The addresses themselves are trusted.
    parallel_for_address  address of `void parallel_for(ptr kernel, ptr slots, ptr meta, i64 n, i64 grain)`,
            for native callers; needs n >= 1 and grain >= 1.

    engine   compiles the pool. Pools of one engine are the same pool.
    threads  see `set_threads`.
    """

    def __init__(self, engine: Engine, threads: int = 0) -> None:
        architecture = engine.triple.partition("-")[0]
        self.parallel = sys.platform == "linux" and architecture in _FUTEX_SYSCALL
        symbols = python_symbols()
        if self.parallel:
            symbols |= symbol_addresses(ctypes.CDLL(None), _SYSTEM_SYMBOLS)
        text = (_pool_ir(architecture) if self.parallel else _SEQUENTIAL_POOL_IR) + launcher_ir()
        functions = engine.compile(text, *_POOL_FUNCTIONS, "launch", symbols=symbols)
        self.parallel_for_address = functions["parallel_for"]
        self.launch = make_builtin("launch", functions["launch"], "launch(kernel, meta, n, grain, *slots)")
        self._set_threads = ctypes.CFUNCTYPE(None, ctypes.c_int32)(functions["set_threads"])
        self._started_workers = ctypes.CFUNCTYPE(ctypes.c_int32)(functions["started_workers"])
        self._parallel_for = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )(functions["parallel_for"])
        self.set_threads(threads)
        address = functions["reset_after_fork"]
        _resets[address] = ctypes.CFUNCTYPE(None)(address)

    @property
    def threads(self) -> int:
        """The number of threads that work on a loop, including the caller."""
        return self._threads

    @property
    def started_workers(self) -> int:
        """The number of threads that the pool has started in this process."""
        return int(self._started_workers())

    def set_threads(self, threads: int) -> None:
        """Use this many threads, including the caller, from the next loop on; 0: all cores of the process."""
        if not 0 <= threads <= _MAX_THREADS:
            raise ArgumentError(f"the number of threads must be 0 to {_MAX_THREADS}, got {threads}")
        self._threads = (threads or available_cores()) if self.parallel else 1
        self._set_threads(self._threads)

    def parallel_for(self, kernel: int, slots: int, meta: int, n: int, grain: int) -> None:
        """Run a kernel with an array of slots made by the caller. All but n and grain are addresses."""
        if not kernel or n < 0 or grain < 1:
            raise ArgumentError(f"bad loop: kernel {kernel:#x}, n {n}, grain {grain}")
        if n:
            self._parallel_for(kernel, slots, meta, n, grain)
