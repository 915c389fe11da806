// The thread pool of the CPU device, for Linux. pool.py says how it works; scripts/pool_ir.py turns this
// file into the LLVM IR in pool.x86_64.ll and pool.aarch64.ll, which is what runs: users need no C compiler.
//
// `state` has the bit OPEN while a job accepts workers, and below it the number of workers inside. A worker enters by
// adding one while OPEN is set, in a single compare-and-exchange; it reads the job only inside. The caller starts a new
// job only when nobody is inside, so the job's fields need no lock.
//
// Two pairs of variables follow the same pattern against lost wake-ups, which needs sequentially consistent order: the
// one who sleeps announces it (`sleepers`, `caller_sleeps`) and then looks again at the variable it waits for
// (`generation`, `state`); the one who changes that variable looks at the announcement afterwards.

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

// Declared here and not by headers: the code is the same for glibc and musl, whose types are no larger than these.
typedef unsigned long cpus[16];
typedef unsigned long opaque[16];
struct time {
    long seconds, nanoseconds;
};
typedef void kernel_function(void *slots, void *meta, long begin, long end);
extern long syscall(long number, ...);
extern int pthread_create(unsigned long *thread, const void *attributes, void *(*start)(void *), void *argument);
extern int pthread_attr_init(void *attributes);
extern int pthread_attr_destroy(void *attributes);
extern int pthread_attr_setdetachstate(void *attributes, int state);
extern int pthread_attr_setstacksize(void *attributes, unsigned long bytes);
extern int pthread_sigmask(int how, const void *set, void *old);
extern int pthread_getaffinity_np(unsigned long thread, unsigned long bytes, void *mask);
extern int pthread_setaffinity_np(unsigned long thread, unsigned long bytes, const void *mask);
extern int sched_setaffinity(int process, unsigned long bytes, const void *mask);
extern int sched_getcpu(void);

#if defined(__x86_64__)
#define SYS_FUTEX 202
#define spin_hint() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define SYS_FUTEX 98
#ifdef __clang__
#define spin_hint() __builtin_arm_yield()
#else
#define spin_hint() __asm__ volatile("yield")
#endif
#endif

enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129, DETACHED = 1, SIG_SETMASK = 2, EVERYBODY = 0x7fffffff };

#define OPEN ((int)0x80000000)

// How often an idle worker looks for a new job before it sleeps: about 200 us on Zen 4, longer than a few lines of
// Python between two kernels and shorter than a scheduler slice. Waking takes 50 to 100 us.
#define WORKER_SPINS 8000

// How often the caller looks again for the last worker before it sleeps. A worker on a core of its own is done by then;
// one that was put off its core gets the caller's.
#define CALLER_SPINS 1000

// How long the caller sleeps before it concludes that the last worker waits for a CPU: longer than most pieces, much
// shorter than the 3 to 4 ms that a scheduler gives to a competitor.
#define PULL_AFTER_NANOSECONDS 100000

// glibc takes a thread's default stack from `ulimit -s`, musl gives 128 KiB; row kernels need 256 KiB. Only touched
// pages cost memory.
#define STACK_BYTES (8ul << 20)

// Workers that are moved between CPUs. Each costs the caller about 1 us; where there are more cores, idle ones are easy
// to find.
#define PLACED_WORKERS 16

// A faulting kernel should still reach faulthandler: SIGILL, SIGBUS, SIGFPE and SIGSEGV stay unblocked.
#define BLOCKED_SIGNALS (~(1ul << 3 | 1ul << 6 | 1ul << 7 | 1ul << 10))

#define LINE __attribute__((aligned(64)))
#define NOINLINE __attribute__((noinline))

static struct {
    kernel_function *kernel;
    void *slots, *meta;
    long grain;
} job LINE __attribute__((used));  // which keeps its fields together

// The items of a job, in two halves. A thread begins with the same half in every job, so that most of what it reads is
// what it wrote in the job before. Fetching it from the other core took 3 to 9 % of MobileNetV2 on two cores of a Zen 3.
static struct half {
    _Atomic long next;  // the first item that no thread has claimed
    long end;
} LINE halves[2];
static _Atomic int state LINE;
static _Atomic int generation LINE;  // grows by one with every job
static _Atomic int sleepers LINE;  // workers that sleep, or are about to, in `generation`
static _Atomic int caller_sleeps LINE;
static _Atomic int busy LINE;         // 1 while a caller owns the pool
static _Atomic int threads LINE = 1;  // as many as were asked for, with the caller
static _Atomic int workers;           // started so far; only the owner of the pool changes it

// Where a worker runs. Only the worker leaves AWAKE, PLACED and PULLED. The caller turns ASLEEP or WORKING into MOVING,
// which is like a lock, and that into PLACED (kept off the caller's CPU), PULLED (bound to it) or back.
enum { AWAKE, ASLEEP, WORKING, MOVING, PLACED, PULLED };

static struct placement {
    _Atomic int state;
    unsigned long thread;
    cpus mask;  // the worker's own while it is changed
} placements[PLACED_WORKERS + 1] LINE;

// --- futex

static void wait_while(_Atomic int *word, int value, const struct time *timeout) {
    syscall(SYS_FUTEX, word, (long)FUTEX_WAIT_PRIVATE, value, timeout, NULL, 0l);
}

static void wake(_Atomic int *word, long count) {
    syscall(SYS_FUTEX, word, (long)FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0l);
}

// --- the work, for caller and workers alike

static NOINLINE void work(int own) {
    long grain = job.grain;
    for (int turn = 0; turn < 2; ++turn) {
        struct half *half = &halves[own ^ turn];
        for (;;) {
            long begin = atomic_fetch_add(&half->next, grain);
            long left = half->end - begin;
            if (left <= 0) break;
            job.kernel(job.slots, job.meta, begin, begin + (left < grain ? left : grain));
        }
    }
}

// --- where workers run

static bool change(_Atomic int *word, int from, int to) { return atomic_compare_exchange_strong(word, &from, to); }

// Entry 0 is for all workers beyond the table, which nobody moves.
static struct placement *placement_of(int worker) { return &placements[worker <= PLACED_WORKERS ? worker : 0]; }

// target = the CPUs of `source` that are `cpu`, or that are not.
static void select_cpus(cpus target, const cpus source, int cpu, bool same) {
    for (int i = 0; i < 16; ++i) {
        unsigned long only = i == cpu / 64 ? 1ul << cpu % 64 : 0;
        target[i] = source[i] & (same ? only : ~only);
    }
}

// Move a worker, which is in state MOVING, to `cpu` or away from it. Its state is then `moved`, or `kept` when the system
// refuses: most of all when no CPU would be left.
static void move(struct placement *worker, int cpu, bool same, int kept, int moved) {
    cpus target;
    int result = kept;
    if (!pthread_getaffinity_np(worker->thread, sizeof(cpus), worker->mask)) {
        select_cpus(target, worker->mask, cpu, same);
        if (!pthread_setaffinity_np(worker->thread, sizeof(cpus), target)) result = moved;
    }
    worker->state = result;
}

// Move all workers in one state to the CPU of the calling thread or away from it.
static NOINLINE void move_all(bool same, int from, int moved) {
    int cpu = sched_getcpu(), last = workers < PLACED_WORKERS ? workers : PLACED_WORKERS;
    for (int worker = 1; worker <= last; ++worker)
        if (change(&placements[worker].state, from, MOVING)) move(&placements[worker], cpu, same, from, moved);
}

// A worker returns to state AWAKE and to its own mask. One that is being moved at this moment does so later.
static NOINLINE void settle(struct placement *self) {
    cpus others;
    int now = self->state;
    switch (now) {
    case ASLEEP:
    case WORKING:
        change(&self->state, now, AWAKE);
        return;
    case PULLED:
        // The caller goes on here, on its own CPU.
        select_cpus(others, self->mask, sched_getcpu(), false);
        sched_setaffinity(0, sizeof(cpus), others);
        // fall through
    case PLACED:
        sched_setaffinity(0, sizeof(cpus), self->mask);
        self->state = AWAKE;
    }
}

// --- a worker; it takes part while its number, from 1 on, is less than `threads`

// Wait for a job after number `seen`.
static int next_job(int seen, struct placement *self) {
    for (int spins = 0;; ++spins) {
        int number = generation;
        if (number != seen) return number;
        if (spins < WORKER_SPINS) {
            spin_hint();
            continue;
        }
        settle(self);
        change(&self->state, AWAKE, ASLEEP);
        sleepers += 1;
        wait_while(&generation, seen, NULL);
        sleepers -= 1;
        settle(self);
        spins = 0;
    }
}

static bool enter(void) {
    for (int now = state; now < 0;)
        if (atomic_compare_exchange_strong(&state, &now, now + 1)) return true;
    return false;
}

static void *worker(void *argument) {
    int number = (int)(long)argument;
    struct placement *self = placement_of(number);
    // Start as if one job had been missed: this thread was started for a job that is open already.
    int seen = generation - 1;
    for (;;) {
        settle(self);
        int wanted = threads;
        if (number >= wanted) {
            wait_while(&threads, wanted, NULL);
            continue;
        }
        seen = next_job(seen, self);
        if (!enter()) continue;
        change(&self->state, AWAKE, WORKING);
        work(number & 1);
        bool last = (state -= 1) == 0;
        if (caller_sleeps && last) wake(&state, 1);
    }
}

// --- start what is missing; on failure go on with the threads there are

static NOINLINE void start_workers(int wanted) {
    opaque attributes, signals, old_signals;
    int cpu = sched_getcpu();
    for (int i = 0; i < 16; ++i) signals[i] = i ? ~0ul : BLOCKED_SIGNALS;
    pthread_attr_init(attributes);
    pthread_attr_setdetachstate(attributes, DETACHED);
    pthread_attr_setstacksize(attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, signals, old_signals);  // A thread inherits the mask of the one that starts it.
    for (int number = workers + 1; number < wanted; ++number) {
        struct placement *placement = placement_of(number);
        bool placed = number <= PLACED_WORKERS;
        unsigned long thread;
        placement->state = placed ? MOVING : AWAKE;
        if (pthread_create(&thread, attributes, worker, (void *)(long)number)) {
            threads = number;
            break;
        }
        workers = number;
        if (placed) {
            placement->thread = thread;
            move(placement, cpu, false, WORKING, PLACED);
        }
    }
    pthread_sigmask(SIG_SETMASK, old_signals, NULL);
    pthread_attr_destroy(attributes);
}

// --- the loop

// Wait until all workers have left the closed job.
static void wait_for_workers(void) {
    int inside = state;
    for (int spins = 0; inside && spins < CALLER_SPINS; ++spins) {
        spin_hint();
        inside = state;
    }
    if (!inside) return;
    // A worker has been put off the CPU in the middle of its piece. Sleeping leaves it this core.
    static const struct time pull_after = {0, PULL_AFTER_NANOSECONDS};
    caller_sleeps = 1;
    wait_while(&state, inside, &pull_after);
    // Only the last one: several at work must not be gathered on one CPU.
    if (state == 1) move_all(true, WORKING, PULLED);
    while ((inside = state)) wait_while(&state, inside, NULL);
    caller_sleeps = 0;
}

void parallel_for(kernel_function *kernel, void *slots, void *meta, long n, long grain) {
    int wanted = threads;
    if (wanted <= 1 || n <= grain || atomic_exchange(&busy, 1)) {
        kernel(slots, meta, 0, n);
        return;
    }
    job.kernel = kernel;
    job.slots = slots;
    job.meta = meta;
    job.grain = grain;
    long pieces = (n - 1) / grain + 1;
    halves[0].end = halves[1].next = (pieces + 1) / 2 * grain;
    halves[0].next = 0;
    halves[1].end = n;
    state = OPEN;
    generation += 1;
    if (workers + 1 < wanted) start_workers(wanted);
    if (sleepers) {
        move_all(false, ASLEEP, PLACED);
        long helpers = pieces - 1;  // No more than there are pieces for, besides the caller's.
        wake(&generation, helpers < EVERYBODY ? helpers : EVERYBODY);
    }
    work(0);
    state &= ~OPEN;
    wait_for_workers();
    busy = 0;
}

// --- control

void set_threads(int count) {
    threads = count;
    generation += 1;  // surplus workers notice, and park
    wake(&generation, EVERYBODY);
    wake(&threads, EVERYBODY);  // parked ones notice, and return
}

void reset_after_fork(void) {
    state = sleepers = caller_sleeps = workers = busy = 0;
}

int started_workers(void) { return workers; }
