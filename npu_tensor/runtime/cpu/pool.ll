$declare_hint
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

%job = type { ptr, ptr, ptr, i64, i64 }            ; kernel, slots, meta, n, grain
@job = internal global %job zeroinitializer, align 64
@state = internal global i32 0, align 64
@generation = internal global i32 0, align 64        ; grows by one with every job
@next_item = internal global i64 0, align 64
@sleepers = internal global i32 0, align 64          ; workers that sleep, or are about to, in %generation
@caller_sleeps = internal global i32 0, align 64
@busy = internal global i32 0, align 64              ; 1 while a caller owns the pool
@threads = internal global i32 1, align 64           ; wanted, including the caller
@workers = internal global i32 0                     ; started so far; changed only by the owner of the pool

%cpus = type [$mask_words x i64]
%placement = type { i32, i64, %cpus }               ; state, pthread_t, the worker's mask while it is changed
@placements = internal global [$placements x %placement] zeroinitializer, align 64
@pull_after = internal constant [2 x i64] [i64 0, i64 $pull_after_nanoseconds]

; ---- futex -------------------------------------------------------------------------------------------------
define internal void @wait_while(ptr %word, i32 %value, ptr %timeout) {
  call i64 (i64, ...) @syscall(i64 $futex_syscall, ptr %word, i64 $futex_wait, i32 %value,
                               ptr %timeout, ptr null, i64 0)
  ret void
}

define internal void @wake(ptr %word, i64 %count) {
  call i64 (i64, ...) @syscall(i64 $futex_syscall, ptr %word, i64 $futex_wake, i64 %count,
                               ptr null, ptr null, i64 0)
  ret void
}

; ---- the work, for caller and workers alike ----------------------------------------------------------------
define internal void @work() noinline {
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
}

; ---- where workers run -------------------------------------------------------------------------------------
; The entry of worker 1, 2, ...; entry 0 is for all workers beyond the table, which nobody moves.
define internal ptr @placement_of(i32 %index) {
  %listed = icmp ule i32 %index, $placed_workers
  %entry = select i1 %listed, i32 %index, i32 0
  %placement = getelementptr [$placements x %placement], ptr @placements, i32 0, i32 %entry
  ret ptr %placement
}

; %target = the CPUs of %source that are %cpu (%same = true), or that are not.
define internal void @select_cpus(ptr %target, ptr %source, i32 %cpu, i1 %same) {
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
  %more = icmp ult i32 %i.next, $mask_words
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Move a worker, which is in state $moving, to %cpu or away from it. Its state is then %moved, or %kept when
; the system refuses: most of all when no CPU would be left.
define internal void @move(ptr %placement, i32 %cpu, i1 %same, i32 %kept, i32 %moved) {
entry:
  %target = alloca %cpus
  %thread.at = getelementptr %placement, ptr %placement, i32 0, i32 1
  %mask = getelementptr %placement, ptr %placement, i32 0, i32 2
  %thread = load i64, ptr %thread.at
  %unknown = call i32 @pthread_getaffinity_np(i64 %thread, i64 $mask_bytes, ptr %mask)
  %known = icmp eq i32 %unknown, 0
  br i1 %known, label %change, label %leave
change:
  call void @select_cpus(ptr %target, ptr %mask, i32 %cpu, i1 %same)
  %refused = call i32 @pthread_setaffinity_np(i64 %thread, i64 $mask_bytes, ptr %target)
  %accepted = icmp eq i32 %refused, 0
  %state = select i1 %accepted, i32 %moved, i32 %kept
  br label %leave
leave:
  %result = phi i32 [ %kept, %entry ], [ %state, %change ]
  store atomic i32 %result, ptr %placement seq_cst, align 8
  ret void
}

; Move all workers in one state to the CPU of the calling thread or away from it.
define internal void @move_all(i1 %same, i32 %from, i32 %moved) noinline {
entry:
  %cpu = call i32 @sched_getcpu()
  %started = load i32, ptr @workers
  %many = icmp ugt i32 %started, $placed_workers
  %last = select i1 %many, i32 $placed_workers, i32 %started
  br label %loop
loop:
  %index = phi i32 [ 1, %entry ], [ %index.next, %next ]
  %more = icmp ule i32 %index, %last
  br i1 %more, label %claim, label %done
claim:
  %placement = call ptr @placement_of(i32 %index)
  %attempt = cmpxchg ptr %placement, i32 %from, i32 $moving seq_cst seq_cst
  %claimed = extractvalue { i32, i1 } %attempt, 1
  br i1 %claimed, label %move, label %next
move:
  call void @move(ptr %placement, i32 %cpu, i1 %same, i32 %from, i32 %moved)
  br label %next
next:
  %index.next = add i32 %index, 1
  br label %loop
done:
  ret void
}

; A worker returns to state $awake and to its own mask. One that is being moved at this moment does so later.
define internal void @settle(ptr %placement) noinline {
entry:
  %others = alloca %cpus
  %mask = getelementptr %placement, ptr %placement, i32 0, i32 2
  %state = load atomic i32, ptr %placement seq_cst, align 8
  switch i32 %state, label %done [
    i32 $asleep, label %simple
    i32 $working, label %simple
    i32 $placed, label %restore
    i32 $pulled, label %make_room
  ]
simple:
  cmpxchg ptr %placement, i32 %state, i32 $awake seq_cst seq_cst
  ret void
make_room:
  ; The caller goes on here, on its own CPU.
  %cpu = call i32 @sched_getcpu()
  call void @select_cpus(ptr %others, ptr %mask, i32 %cpu, i1 false)
  call i32 @sched_setaffinity(i32 0, i64 $mask_bytes, ptr %others)
  br label %restore
restore:
  call i32 @sched_setaffinity(i32 0, i64 $mask_bytes, ptr %mask)
  store atomic i32 $awake, ptr %placement seq_cst, align 8
  br label %done
done:
  ret void
}

; ---- a worker: %self is its number, from 1; it takes part while %self < @threads ---------------------------
define internal ptr @worker(ptr %self) {
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
  %tired = icmp sge i32 %spins, $worker_spins
  br i1 %tired, label %sleep, label %again
again:
  $hint
  %spins.next = add i32 %spins, 1
  br label %watch
sleep:
  call void @settle(ptr %placement)
  cmpxchg ptr %placement, i32 $awake, i32 $asleep seq_cst seq_cst
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
  %entered = extractvalue { i32, i1 } %attempt, 1
  br i1 %entered, label %join, label %look
join:
  cmpxchg ptr %placement, i32 $awake, i32 $working seq_cst seq_cst
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
}

; ---- start what is missing; on failure go on with the threads there are ------------------------------------
define internal void @start_workers(i32 %wanted) noinline {
entry:
  %attributes = alloca [16 x i64]
  %signals = alloca [16 x i64]
  %old_signals = alloca [16 x i64]
  %thread = alloca i64
  %cpu = call i32 @sched_getcpu()
  call void @fill_signals(ptr %signals)
  call i32 @pthread_attr_init(ptr %attributes)
  call i32 @pthread_attr_setdetachstate(ptr %attributes, i32 $detached)
  call i32 @pthread_attr_setstacksize(ptr %attributes, i64 $stack_bytes)
  ; A thread inherits the signal mask of the one that starts it.
  call i32 @pthread_sigmask(i32 $sig_setmask, ptr %signals, ptr %old_signals)
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
  %listed = icmp ule i32 %index, $placed_workers
  %first_state = select i1 %listed, i32 $moving, i32 $awake
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
  call void @move(ptr %placement, i32 %cpu, i1 false, i32 $working, i32 $placed)
  br label %loop
give_up:
  store atomic i32 %index, ptr @threads seq_cst, align 4
  br label %done
done:
  call i32 @pthread_sigmask(i32 $sig_setmask, ptr %old_signals, ptr null)
  call i32 @pthread_attr_destroy(ptr %attributes)
  ret void
}

define internal void @fill_signals(ptr %set) {
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
  store i64 $blocked_signals, ptr %set
  ret void
}

; ---- the loop ----------------------------------------------------------------------------------------------
define void @parallel_for(ptr %kernel, ptr %slots, ptr %meta, i64 %n, i64 %grain) {
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
  store atomic i32 $open, ptr @state seq_cst, align 4
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
  call void @move_all(i1 false, i32 $asleep, i32 $placed)
  ; No more than there are pieces for, besides the caller's.
  %rest = sub i64 %n, 1
  %helpers = udiv i64 %rest, %grain
  %many = icmp ugt i64 %helpers, 2147483647
  %count = select i1 %many, i64 2147483647, i64 %helpers
  call void @wake(ptr @generation, i64 %count)
  br label %go
go:
  call void @work()
  %closing = atomicrmw and ptr @state, i32 $all_but_open seq_cst
  br label %wait
wait:
  %spins = phi i32 [ 0, %go ], [ %spins.next, %again ]
  %inside = load atomic i32, ptr @state seq_cst, align 4
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %done, label %still
still:
  %tired = icmp sge i32 %spins, $caller_spins
  br i1 %tired, label %sleep, label %again
again:
  $hint
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
  call void @move_all(i1 true, i32 $working, i32 $pulled)
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
}

; ---- control -----------------------------------------------------------------------------------------------
define void @set_threads(i32 %count) {
  store atomic i32 %count, ptr @threads seq_cst, align 4
  atomicrmw add ptr @generation, i32 1 seq_cst           ; surplus workers notice, and park
  call void @wake(ptr @generation, i64 2147483647)
  call void @wake(ptr @threads, i64 2147483647)          ; parked ones notice, and return
  ret void
}

define void @reset_after_fork() {
  store atomic i32 0, ptr @state seq_cst, align 4
  store atomic i32 0, ptr @sleepers seq_cst, align 4
  store atomic i32 0, ptr @caller_sleeps seq_cst, align 4
  store i32 0, ptr @workers
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}

define i32 @started_workers() {
  %count = load i32, ptr @workers
  ret i32 %count
}
