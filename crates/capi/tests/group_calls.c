/* The calls of 2012 (sched/numa), line by line: what the comments of sys_numa_tbind() and
 * sys_numa_mbind() and the letter before them promise. By their original names, to an agent that
 * NODEWARD_SOCKET names. Each check names itself when it fails. At the end the program prints a
 * group and the memory in it. */

#define _GNU_SOURCE

#include <nodeward_numa.h>

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define USER 54321 /* owns nothing here */

/* A thread that stands by. */
struct worker {
    pthread_t thread;
    pthread_barrier_t step;
    int tid;
};

static int own_tid(void)
{
    return (int)syscall(SYS_gettid);
}

static void *stand_by(void *argument)
{
    struct worker *self = argument;

    self->tid = own_tid();
    pthread_barrier_wait(&self->step);
    pthread_barrier_wait(&self->step);
    return NULL;
}

static void start(struct worker *worker)
{
    pthread_barrier_init(&worker->step, NULL, 2);
    CHECK(pthread_create(&worker->thread, NULL, stand_by, worker) == 0);
    pthread_barrier_wait(&worker->step);
}

static void end(struct worker *worker)
{
    pthread_barrier_wait(&worker->step);
    CHECK(pthread_join(worker->thread, NULL) == 0);
}

/* Whether a child that does this ends well. */
static int child_does(void (*work)(int), int argument)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        work(argument);
        exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* "returns existing ng_id", "-EINVAL: task didn't have a ng_id". */
static void a_thread_without_a_group(void)
{
    CHECK(numa_tbind(0, NODEWARD_GROUP_QUERY, 0) == -EINVAL);
    CHECK(strstr(nodeward_last_error(), "in no group") != NULL);
    CHECK(numa_tbind(own_tid(), -2, 0) == -EINVAL);
}

/* "create new group, return new ng_id"; a tid of 0 is the current task. */
static int a_new_group(void)
{
    int group = numa_tbind(0, NODEWARD_GROUP_NEW, 0);

    CHECK(group > 0);
    CHECK(numa_tbind(0, -2, 0) == group);
    CHECK(numa_tbind(own_tid(), -2, 0) == group);
    return group;
}

/* "set ng_id": a thread joins, and leaves the group where it was, which ends with its last one. */
static void another_thread_joins(int group)
{
    struct worker worker;
    int other;

    start(&worker);
    CHECK(numa_tbind(worker.tid, -2, 0) == -EINVAL);
    other = numa_tbind(worker.tid, -1, 0);
    CHECK(other > 0 && other != group);
    CHECK(numa_tbind(worker.tid, group, 0) == group);
    CHECK(numa_tbind(worker.tid, -2, 0) == group);
    CHECK(numa_tbind(worker.tid, other, 0) == -EINVAL);
    CHECK(strstr(nodeward_last_error(), "no group") != NULL);
    CHECK(numa_tbind(worker.tid, -2, 0) == group);
    end(&worker);
}

/* "-ESRCH: tid->task resolution failed", whatever is asked. */
static void a_thread_that_is_none(int group)
{
    struct worker worker;
    int tids[] = {0, -1, -own_tid(), INT32_MAX};
    int asked[] = {-1, -2, group};

    start(&worker);
    end(&worker);
    tids[0] = worker.tid; /* it has ended */
    for (size_t tid = 0; tid < sizeof(tids) / sizeof(*tids); tid++)
        for (size_t index = 0; index < sizeof(asked) / sizeof(*asked); index++)
            CHECK(numa_tbind(tids[tid], asked[index], 0) == -ESRCH);
}

/* "-EINVAL: flags was wrong"; numbers that no group has. */
static void what_has_no_meaning(int group)
{
    static const int groups[] = {-3, INT32_MIN, 0, INT32_MAX};
    int asked[] = {-1, -2, group};

    for (size_t index = 0; index < sizeof(asked) / sizeof(*asked); index++) {
        CHECK(numa_tbind(0, asked[index], 1) == -EINVAL);
        CHECK(numa_tbind(0, asked[index], ~0UL << 31) == -EINVAL);
        CHECK(nodeward_tbind(0, asked[index], 1u << 31) == -EINVAL);
    }
    for (size_t index = 0; index < sizeof(groups) / sizeof(*groups); index++)
        CHECK(numa_tbind(0, groups[index], 0) == -EINVAL);
    CHECK(numa_tbind(0, -2, 0) == group);
}

/* "Bind a memory region to a numa group": whole pages, of this process. */
static void memory_joins(int group)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    CHECK(numa_mbind(memory, 4 * page, group, 1) == -EINVAL);
    CHECK(numa_mbind(memory + 1, page, group, 0) == -EINVAL);
    CHECK(numa_mbind(memory, (size_t)-1, group, 0) == -EINVAL);
    CHECK(numa_mbind(memory, page, group + 1000, 0) == -EINVAL);
    /* For memory there is nothing to make, and nothing to ask. */
    CHECK(numa_mbind(memory, page, -1, 0) == -EINVAL);
    CHECK(numa_mbind(memory, page, -2, 0) == -EINVAL);
    CHECK(numa_mbind(memory, 0, group, 0) == 0);
    CHECK(numa_mbind(memory + page, 2 * page - 1, group, 0) == 0);
    printf("%d %lx-%lx\n", group, (unsigned long)(memory + page),
           (unsigned long)(memory + 3 * page));
}

/* "MPOL_MF_LAZY": what a pager manages moves by the pager, also when it is touched, where it can be
 * left out of sight; the kernel alone cannot do that. Nothing else moves so. */
static void memory_of_a_region_joins(void)
{
    struct nodeward_pager_options options = { .size = sizeof options,
                                              .flags = NODEWARD_PAGER_KERNEL_ONLY };
    struct nodeward_pager *pager;
    struct nodeward_region *region;
    struct worker worker;
    size_t bytes = 4 << 20;
    char *memory;
    int group;

    start(&worker);
    group = numa_tbind(worker.tid, -1, 0);
    CHECK(group > 0);
    CHECK(nodeward_pager_open(&options, &pager) == NODEWARD_STATUS_OK);
    CHECK(nodeward_region_reserve(pager, bytes, NULL, &region) == NODEWARD_STATUS_OK);
    memory = nodeward_region_address(region);
    CHECK(numa_mbind(memory, bytes, group, 0) == 0);
    CHECK(numa_mbind(memory, 1, group, 0) == 0);
    CHECK(numa_mbind(memory, bytes, group, NODEWARD_MBIND_LAZY) == -EOPNOTSUPP);
    CHECK(strstr(nodeward_last_error(), "lazy migration") != NULL);
    CHECK(numa_mbind(memory, bytes + 1, group, NODEWARD_MBIND_LAZY) == -EINVAL);
    CHECK(strstr(nodeward_last_error(), "no region") != NULL);
    CHECK(numa_mbind(memory, bytes, group, NODEWARD_MBIND_LAZY | 1) == -EINVAL);
    CHECK(numa_mbind(memory, bytes, group, 1UL << 32) == -EINVAL);
    nodeward_region_release(region);
    CHECK(numa_mbind(memory, bytes, group, NODEWARD_MBIND_LAZY) == -EINVAL);
    nodeward_pager_close(pager);
    CHECK(nodeward_group_delete(group) == 0);
    end(&worker);
}

/* What was not proposed in 2012: a home, and an end before that of the members. */
static void a_home_and_an_end(int group)
{
    struct worker worker;
    int other;

    CHECK(nodeward_group_set_home(group, "0") == 0);
    CHECK(nodeward_group_set_home(group, "auto") == 0);
    CHECK(nodeward_group_set_home(group, "nowhere") == -EINVAL);
    CHECK(strstr(nodeward_last_error(), "spread:NODES") != NULL);
    CHECK(nodeward_group_set_home(group, "\xff") == -EINVAL);
    CHECK(nodeward_group_set_home(group, NULL) == -EINVAL);
    CHECK(nodeward_group_set_home(group + 1000, "0") == -EINVAL);
    start(&worker);
    other = numa_tbind(worker.tid, -1, 0);
    CHECK(other > group && nodeward_group_delete(other) == 0);
    CHECK(numa_tbind(worker.tid, -2, 0) == -EINVAL);
    CHECK(nodeward_group_delete(other) == -EINVAL);
    CHECK(nodeward_group_delete(-1) == -EINVAL);
    end(&worker);
}

/* A child is another process, in no group. It may join that of its parent by itself. */
static void in_a_child(int group)
{
    CHECK(numa_tbind(0, -2, 0) == -EINVAL);
    CHECK(numa_tbind(getppid(), -2, 0) == group);
    CHECK(numa_tbind(0, group, 0) == group);
}

/* "-EPERM: we don't have privileges over tid": the parent's group is none for this user. */
static void as_another_user(int group)
{
    CHECK(setgid(USER) == 0 && setuid(USER) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
    CHECK(numa_tbind(getppid(), -1, 0) == -EPERM);
    CHECK(numa_tbind(getppid(), -2, 0) == -EPERM);
    CHECK(strstr(nodeward_last_error(), "another user") != NULL);
    CHECK(numa_tbind(0, group, 0) == -EINVAL);
    CHECK(numa_mbind(NULL, 1, group, 0) == -EINVAL);
    CHECK(nodeward_group_delete(group) == -EINVAL);
    CHECK(numa_tbind(0, -1, 0) > group);
}

/* Where nobody answers, the error says where that was. */
static void without_an_agent(int group)
{
    CHECK(setenv("NODEWARD_SOCKET", "/nowhere/agent.sock", 1) == 0);
    CHECK(numa_tbind(0, -1, 0) == -ECONNREFUSED);
    CHECK(numa_tbind(0, -2, 0) == -ECONNREFUSED);
    CHECK(numa_mbind(NULL, 1, group, 0) == -ECONNREFUSED);
    CHECK(strstr(nodeward_last_error(), "/nowhere/agent.sock") != NULL);
    /* What is wrong without an agent is told without one. */
    CHECK(numa_tbind(0, -1, 1) == -EINVAL);
    CHECK(numa_tbind(-5, -2, 0) == -ESRCH);
    CHECK(nodeward_group_delete(group) == -ECONNREFUSED);
}

int main(void)
{
    int group;

    CHECK(NODEWARD_GROUP_NEW == -1 && NODEWARD_GROUP_QUERY == -2);
    a_thread_without_a_group();
    group = a_new_group();
    another_thread_joins(group);
    a_thread_that_is_none(group);
    what_has_no_meaning(group);
    memory_joins(group);
    memory_of_a_region_joins();
    a_home_and_an_end(group);
    fflush(stdout);
    CHECK(child_does(in_a_child, group));
    if (geteuid() == 0)
        CHECK(child_does(as_another_user, group));
    else
        fprintf(stderr, "skipped: to become another user needs root\n");
    CHECK(child_does(without_an_agent, group));
    return 0;
}
