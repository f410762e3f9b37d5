/* A program in parts: each has threads and an array that only these use. It tells the agent
 * (`nodeward balance`) so, which then keeps each part together, on a node of its own if it can.
 * Without an agent it does the same work wherever it runs. Ends with 1 if a word is wrong, with 2 if
 * something could not be set up.
 *
 *     cc -std=c11 groups.c $(pkg-config --cflags --libs nodeward) -pthread
 */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <nodeward.h>

enum {
    PARTS = 2,
    THREADS = 2, /* of each part */
    WORDS = 1 << 18, /* 2 MiB for each part */
};

struct part {
    uint64_t *words;
    int group; /* 0: none */
    pthread_mutex_t lock;
    pthread_barrier_t all_there;
};

/* A thread of a part, and where its words begin. */
struct worker {
    pthread_t thread;
    struct part *part;
    uint64_t *words;
};

/* Whether the agent did it. Where none is to be asked, says so and goes on. */
static int is_done(int result)
{
    if (result == -ECONNREFUSED || result == -EACCES) {
        fprintf(stderr, "not grouped: %s\n", nodeward_last_error());
        return 0;
    }
    if (result < 0) {
        fprintf(stderr, "grouping: %s\n", nodeward_last_error());
        exit(2);
    }
    return 1;
}

/* The first thread of a part makes its group and puts the array into it; the others join. */
static void join(struct part *part)
{
    pthread_mutex_lock(&part->lock);
    if (part->group > 0) {
        is_done(nodeward_tbind(0, part->group, 0));
    } else {
        int group = nodeward_tbind(0, NODEWARD_GROUP_NEW, 0);
        if (is_done(group)) {
            part->group = group;
            is_done(nodeward_mbind(part->words, WORDS * sizeof(uint64_t), group, 0));
        }
    }
    pthread_mutex_unlock(&part->lock);
}

/* Adds one to each word of the thread's share. */
static void *work(void *argument)
{
    struct worker *self = argument;

    join(self->part);
    pthread_barrier_wait(&self->part->all_there);
    for (size_t index = 0; index < WORDS / THREADS; index++)
        self->words[index]++;
    return NULL;
}

static void prepare(struct part *part, uint64_t content)
{
    /* Whole pages, so that the part shares none with others. */
    part->words = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), WORDS * sizeof(uint64_t));
    if (part->words == NULL)
        exit(2);
    for (size_t index = 0; index < WORDS; index++)
        part->words[index] = content;
    part->group = 0;
    pthread_mutex_init(&part->lock, NULL);
    pthread_barrier_init(&part->all_there, NULL, THREADS);
}

int main(void)
{
    static struct part parts[PARTS];
    struct worker workers[PARTS * THREADS];
    uint64_t wrong_words = 0;

    for (size_t index = 0; index < PARTS; index++)
        prepare(&parts[index], index);
    for (size_t index = 0; index < PARTS * THREADS; index++) {
        struct worker *worker = &workers[index];
        worker->part = &parts[index / THREADS];
        worker->words = worker->part->words + index % THREADS * (WORDS / THREADS);
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            exit(2);
    }
    for (size_t index = 0; index < PARTS * THREADS; index++)
        pthread_join(workers[index].thread, NULL);
    for (size_t index = 0; index < PARTS; index++) {
        for (size_t word = 0; word < WORDS; word++)
            wrong_words += parts[index].words[word] != index + 1;
        printf("part %zu was group %d\n", index, parts[index].group);
        if (parts[index].group > 0)
            is_done(nodeward_group_delete(parts[index].group));
        free(parts[index].words);
    }
    if (wrong_words > 0)
        fprintf(stderr, "%llu words are wrong\n", (unsigned long long)wrong_words);
    return wrong_words > 0;
}
