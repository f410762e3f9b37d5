/* Threads that take pages from a pool, write them, hand some to each other, and give them back.
 *
 * Every word of a run follows from who wrote it and when, so memory that two threads have at once is
 * found. At the end a run is freed twice, to show that it is refused. Ends with 1 if a word was
 * wrong or a run was lost, with 2 if the pool could not do what it should. Its argument says how often
 * each thread takes or gives a run.
 *
 *     cc -std=c11 page_pool.c $(pkg-config --cflags --libs nodeward) -pthread
 */

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <nodeward.h>

enum {
    THREADS = 2,
    RUNS = 64, /* that a thread has at most */
    ORDERS = 4, /* 1, 2, 4 and 8 pages */
};

/* A run that somebody has; none if `words` is NULL. */
struct run {
    uint64_t *words;
    uint64_t seed;
    uint32_t order;
};

/* A thread and what it did. */
struct worker {
    pthread_t thread;
    uint64_t random;
    uint64_t allocated_runs;
    uint64_t wrong_words;
    struct run runs[RUNS];
};

static struct nodeward_pool *pool;
static size_t page_words;
static long turns = 20000;

/* A run on its way from one thread to another, which frees it. */
static _Atomic(struct run *) parcel;

/* Ends the program, with what the library says, if a call failed. */
static void must(int status, const char *what)
{
    if (status != NODEWARD_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, nodeward_last_error());
        exit(2);
    }
}

/* Numbers in an order without end (xorshift). */
static uint64_t draw(struct worker *self)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return self->random;
}

/* Takes a run and writes it; a zeroed one must be zero before. */
static void take(struct worker *self, struct run *run)
{
    uint32_t flags = draw(self) % 4 == 0 ? NODEWARD_POOL_ZEROED : 0;
    uint32_t order = (uint32_t)(draw(self) >> 8) % ORDERS;
    void *start;

    must(nodeward_pool_allocate(pool, order, flags, NODEWARD_ANY_NODE, &start), "allocating");
    *run = (struct run){.words = start, .seed = draw(self), .order = order};
    for (size_t index = 0; index < page_words << order; index++) {
        if (flags & NODEWARD_POOL_ZEROED)
            self->wrong_words += run->words[index] != 0;
        run->words[index] = run->seed + index;
    }
    self->allocated_runs++;
}

/* Reads a run once more and gives it back. */
static void give(struct worker *self, struct run *run)
{
    for (size_t index = 0; index < page_words << run->order; index++)
        self->wrong_words += run->words[index] != run->seed + index;
    must(nodeward_pool_free(pool, run->words, run->order), "freeing");
    run->words = NULL;
}

/* Leaves a run for whoever comes next, and gives back what was left there. The place where it is
 * noted is memory of the pool, too. */
static void post(struct worker *self, struct run *run)
{
    void *note;

    must(nodeward_pool_allocate(pool, 0, 0, NODEWARD_ANY_NODE, &note), "allocating");
    *(struct run *)note = *run;
    run->words = NULL;
    note = atomic_exchange(&parcel, note);
    if (note != NULL) {
        give(self, note);
        must(nodeward_pool_free(pool, note, 0), "freeing");
    }
}

static void *work(void *argument)
{
    struct worker *self = argument;

    for (long turn = 0; turn < turns; turn++) {
        struct run *run = &self->runs[draw(self) % RUNS];
        if (run->words == NULL)
            take(self, run);
        else if (draw(self) % 8 == 0)
            post(self, run);
        else
            give(self, run);
    }
    for (size_t index = 0; index < RUNS; index++) {
        if (self->runs[index].words != NULL)
            give(self, &self->runs[index]);
    }
    return NULL;
}

/* What a program did wrong is told; the pool stays as it was. */
static void free_twice(void)
{
    void *run;

    must(nodeward_pool_allocate(pool, 0, 0, NODEWARD_ANY_NODE, &run), "allocating");
    must(nodeward_pool_free(pool, run, 0), "freeing");
    if (nodeward_pool_free(pool, run, 0) != NODEWARD_STATUS_DOUBLE_FREE) {
        fputs("a run could be freed twice\n", stderr);
        exit(2);
    }
    printf("freed twice: %s\n", nodeward_last_error());
}

/* Prints what the pool did; returns how many pages are still with somebody. */
static uint64_t account(void)
{
    struct nodeward_pool_stats stats = {.size = sizeof(stats)};
    size_t bytes;

    must(nodeward_pool_stats(pool, &stats), "looking");
    printf("%" PRIu64 " pages allocated, %" PRIu64 " freed; the zones' locks were taken %" PRIu64
           " times\n",
           stats.allocated_pages, stats.freed_pages, stats.zone_visits);
    printf("%" PRIu64 " pages held at most, now %" PRIu64 ", of which %" PRIu64 " in use\n",
           stats.peak_held_pages, stats.held_pages, stats.in_use_pages);
    must(nodeward_pool_give_back(pool, &bytes), "giving back");
    printf("%zu bytes given back to the kernel\n", bytes);
    return stats.in_use_pages;
}

int main(int argc, char **argv)
{
    struct nodeward_pool_options options = {
        .size = sizeof(options),
        .zone_bytes = 64 << 20,
        /* What is in use is exact only while nobody is at work in the pool, the housekeeper included;
         * programs that do not count leave this out. */
        .flags = NODEWARD_POOL_NO_HOUSEKEEPER,
    };
    struct worker workers[THREADS];
    struct worker last = {0};
    struct run *left;
    uint64_t in_use;

    if (argc > 1)
        turns = atol(argv[1]);
    must(nodeward_pool_open(&options, &pool), "opening the pool");
    page_words = nodeward_pool_page_bytes(pool) / sizeof(uint64_t);

    for (size_t index = 0; index < THREADS; index++) {
        workers[index] = (struct worker){.random = index + 1};
        if (pthread_create(&workers[index].thread, NULL, work, &workers[index]) != 0)
            exit(2);
    }
    for (size_t index = 0; index < THREADS; index++) {
        struct worker *worker = &workers[index];
        pthread_join(worker->thread, NULL);
        printf("%" PRIu64 " runs, %" PRIu64 " wrong words\n", worker->allocated_runs,
               worker->wrong_words);
        last.wrong_words += worker->wrong_words;
    }

    must(nodeward_pool_tick(pool), "keeping house"); /* to be done once a second */
    free_twice();
    must(nodeward_pool_close(pool), "closing");
    left = atomic_load(&parcel); /* a closed pool still takes back */
    if (left != NULL) {
        give(&last, left);
        must(nodeward_pool_free(pool, left, 0), "freeing");
    }
    in_use = account();
    nodeward_pool_release(pool);
    if (last.wrong_words > 0 || in_use > 0)
        fprintf(stderr, "%" PRIu64 " words are wrong, %" PRIu64 " pages are lost\n",
                last.wrong_words, in_use);
    return last.wrong_words > 0 || in_use > 0;
}
