// Loops from several threads at once through the pool, to run under ThreadSanitizer: pool.c is linked with this.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef void kernel_function(void *slots, void *meta, long begin, long end);
void parallel_for(kernel_function *kernel, void *slots, void *meta, long n, long grain);
void set_threads(int count);
int started_workers(void);

enum { CALLERS = 3, ROUNDS = 300, ITEMS = 1000 };

// Plain increments: a data race, if two threads get the same item, or a caller goes on before the last worker is done.
static void count(void *slots, void *meta, long begin, long end) {
    long *counters = slots;
    (void)meta;
    for (long i = begin; i < end; ++i) counters[i] += 1;
}

static void *call(void *argument) {
    long *counters = argument;
    for (int round = 1; round <= ROUNDS; ++round) {
        parallel_for(count, counters, NULL, ITEMS, 7);
        if (round % 50 == 0) usleep(3000);  // long enough for workers to fall asleep
        for (int i = 0; i < ITEMS; ++i)
            if (counters[i] != round) exit(2);
    }
    return NULL;
}

int main(void) {
    static long counters[CALLERS][ITEMS];
    pthread_t callers[CALLERS];
    set_threads(4);
    for (int i = 0; i < CALLERS; ++i) pthread_create(&callers[i], NULL, call, counters[i]);
    for (int i = 0; i < 20; ++i) {
        set_threads(2 + i % 3);
        usleep(2000);
    }
    for (int i = 0; i < CALLERS; ++i) pthread_join(callers[i], NULL);
    printf("%d workers\n", started_workers());
    return 0;
}
