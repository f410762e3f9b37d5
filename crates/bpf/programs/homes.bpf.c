/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A scheduler (sched_ext) that runs threads at home: on the nodes that user space wrote to `homes`.
 *
 * Each node has a queue in the order of virtual time. A thread that wakes gets an idle CPU at home,
 * else any idle CPU that its affinity allows, else it waits in the queue of its home. A CPU takes
 * from the queue of its node. It takes from another one when its own is empty, or when nobody has
 * served the other one for long. A thread that runs elsewhere goes home at the end of its slice if
 * a CPU there is idle, or runs a thread that is not at home there.
 *
 * `homes_NAME` is the operation NAME of struct sched_ext_ops. */

#include "kernel.h"

typedef _Bool bool;

/* Nodes are bits of a u64. User space does not load this where a node has a higher number. */
#define NODES_MAX 64
#define CPUS_MAX 8192
#define THREADS_MAX 131072

#define SLICE_NS 5000000ULL
/* A thread that slept keeps at most this much of the time that it did not use. */
#define LAG_NS SLICE_NS
/* A thread that wakes preempts one that is ahead of it by more than this. */
#define PREEMPT_NS 1000000ULL
/* A queue that nobody has served for this long is served by the CPUs of other nodes. */
#define OVERDUE_NS 100000000ULL
/* So often each CPU serves another queue: a thread there may be allowed to run on this CPU alone. */
#define VISIT_NS 500000000ULL

/* The weight of a thread of nice 0. */
#define WEIGHT_DEFAULT 100

/* Constants of the kernel. */
#define PF_KTHREAD 0x00200000
#define TASK_QUEUED 1
#define ENQ_WAKEUP 1ULL
#define ENQ_PREEMPT (1ULL << 32)
#define ENQ_LAST (1ULL << 41)
#define DSQ_LOCAL 0x8000000000000002ULL
#define DSQ_LOCAL_ON 0xc000000000000000ULL
#define KICK_IDLE 1ULL
#define KICK_PREEMPT 2ULL
#define PICK_IDLE_IN_NODE 2ULL

struct cpumask {
    unsigned long bits[1];
} CORE;

struct sched_ext_entity {
    u32 flags;
    u32 weight;
    u64 slice;
} CORE;

struct task_struct {
    s32 pid;
    s32 tgid;
    u32 flags;
    int nr_cpus_allowed;
    unsigned short migration_disabled;
    const struct cpumask *cpus_ptr;
    struct sched_ext_entity scx;
} CORE;

enum scx_exit_kind { SCX_EXIT_NONE };

struct scx_exit_info {
    enum scx_exit_kind kind;
    const char *reason;
    char *msg;
} CORE;

/* Numbers that the kernel counts: the verifier does not go round such a loop for each of them. */
struct bpf_iter_num {
    u64 opaque;
};

#define KFUNC extern __attribute__((section(".ksyms")))

KFUNC s32 scx_bpf_create_dsq(u64 queue, s32 node);
KFUNC void scx_bpf_dsq_insert(struct task_struct *p, u64 queue, u64 slice, u64 flags);
KFUNC void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 queue, u64 slice, u64 vtime,
                                    u64 flags);
KFUNC bool scx_bpf_dsq_move_to_local(u64 queue);
KFUNC s32 scx_bpf_dsq_nr_queued(u64 queue);
KFUNC s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 last, u64 flags, bool *is_idle);
KFUNC s32 scx_bpf_pick_idle_cpu_node(const struct cpumask *allowed, s32 node, u64 flags);
KFUNC s32 scx_bpf_pick_any_cpu_node(const struct cpumask *allowed, s32 node, u64 flags);
KFUNC bool scx_bpf_test_and_clear_cpu_idle(s32 cpu);
KFUNC void scx_bpf_kick_cpu(s32 cpu, u64 flags);
KFUNC s32 scx_bpf_cpu_node(s32 cpu);
KFUNC s32 scx_bpf_task_cpu(const struct task_struct *p);
KFUNC u32 scx_bpf_nr_node_ids(void);
KFUNC u64 scx_bpf_now(void);
KFUNC bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask);
KFUNC int bpf_iter_num_new(struct bpf_iter_num *numbers, int start, int end);
KFUNC int *bpf_iter_num_next(struct bpf_iter_num *numbers);
KFUNC void bpf_iter_num_destroy(struct bpf_iter_num *numbers);

static struct task_struct *(*const current_task)(void) = (void *)158;
static long (*const read_kernel_string)(void *to, u32 bytes, const void *from) = (void *)115;

struct thread {
    /* Virtual time, and the node whose time it is compared with. */
    u64 vtime;
    u64 began_ns;
    u32 node;
};

struct node {
    /* Virtual time of the thread of this node that is ahead of the others. */
    u64 vtime;
    /* When a CPU last took a thread from the queue, or a thread came to the empty queue. */
    u64 served_ns;
    /* One more than a CPU of this node that began to run a thread whose home is elsewhere. */
    u32 guest_cpu;
};

struct cpu {
    /* The virtual time of the thread that runs, at `began_ns`, and whose time that is. */
    u64 vtime;
    u64 began_ns;
    u32 node;
    /* The thread that runs is not at home here. */
    u32 has_guest;
    /* When this CPU last served the queue of another node, and of which one. */
    u64 visited_ns;
    u32 visited;
};

/* As Counts in src/homes.rs, by CPU. */
struct counts {
    /* Time of threads that have a home, there and elsewhere. */
    u64 at_home_ns;
    u64 elsewhere_ns;
    /* Threads that a CPU took from another node's queue because they waited for long. */
    u64 overdue;
    /* Threads that found no room in `threads`. They run in the order in which they come. */
    u64 unordered;
};

/* By thread: bits of the nodes where it is at home. */
struct {
    NUMBER(type, HASH);
    NUMBER(max_entries, THREADS_MAX);
    NUMBER(map_flags, NO_PREALLOC);
    TYPE(key, u32);
    TYPE(value, u64);
} homes SEC(".maps");

/* Bits of the nodes where only those run that are at home there. */
struct {
    NUMBER(type, ARRAY);
    NUMBER(max_entries, 1);
    TYPE(key, u32);
    TYPE(value, u64);
} avoided SEC(".maps");

struct {
    NUMBER(type, HASH);
    NUMBER(max_entries, THREADS_MAX);
    NUMBER(map_flags, NO_PREALLOC);
    TYPE(key, u32);
    TYPE(value, struct thread);
} threads SEC(".maps");

struct {
    NUMBER(type, ARRAY);
    NUMBER(max_entries, NODES_MAX);
    TYPE(key, u32);
    TYPE(value, struct node);
} nodes SEC(".maps");

struct {
    NUMBER(type, ARRAY);
    NUMBER(max_entries, CPUS_MAX);
    TYPE(key, u32);
    TYPE(value, struct cpu);
} cpus SEC(".maps");

struct {
    NUMBER(type, PERCPU_ARRAY);
    NUMBER(max_entries, 1);
    TYPE(key, u32);
    TYPE(value, struct counts);
} counted SEC(".maps");

/* Why the kernel unloaded the scheduler; as in src/homes.rs. */
struct end {
    u64 kind;
    char reason[128];
    char message[1024];
};

struct {
    NUMBER(type, ARRAY);
    NUMBER(max_entries, 1);
    TYPE(key, u32);
    TYPE(value, struct end);
} ended SEC(".maps");

INLINE bool is_before(u64 a, u64 b) {
    return (s64)(a - b) < 0;
}

INLINE struct counts *counts_of_this_cpu(void) {
    u32 zero = 0;

    return map_lookup(&counted, &zero);
}

INLINE struct thread *thread_of(struct task_struct *p) {
    u32 tid = p->pid;

    return map_lookup(&threads, &tid);
}

INLINE struct node *node_at(u32 node) {
    return map_lookup(&nodes, &node);
}

INLINE struct cpu *cpu_at(u32 cpu) {
    return map_lookup(&cpus, &cpu);
}

INLINE u32 node_of_cpu(s32 cpu) {
    return scx_bpf_cpu_node(cpu) & (NODES_MAX - 1);
}

INLINE bool is_on(s32 cpu, u64 within) {
    return within >> node_of_cpu(cpu) & 1;
}

INLINE u64 avoided_nodes(void) {
    u32 zero = 0;
    u64 *nodes_avoided = map_lookup(&avoided, &zero);

    return nodes_avoided ? *nodes_avoided : 0;
}

/* The nodes where a thread is to run; 0 if it may run anywhere. */
INLINE u64 nodes_of(struct task_struct *p) {
    u32 tid = p->pid;
    u64 *home = map_lookup(&homes, &tid);
    u64 avoid;

    if (home)
        return *home;
    avoid = avoided_nodes();
    return avoid ? ~avoid : 0;
}

INLINE void begin_nodes(struct bpf_iter_num *nodes) {
    bpf_iter_num_new(nodes, 0, scx_bpf_nr_node_ids());
}

/* The next node; -1 at the end. */
INLINE s32 next_node(struct bpf_iter_num *nodes) {
    int *node = bpf_iter_num_next(nodes);

    return node ? *node & (NODES_MAX - 1) : -1;
}

/* Finds a CPU for a thread on a node; -1 if there is none. */
typedef s32 (*find_cpu)(struct task_struct *p, s32 node);

INLINE s32 idle_cpu_at(struct task_struct *p, s32 node) {
    return scx_bpf_pick_idle_cpu_node(p->cpus_ptr, node, PICK_IDLE_IN_NODE);
}

INLINE s32 any_cpu_at(struct task_struct *p, s32 node) {
    return scx_bpf_pick_any_cpu_node(p->cpus_ptr, node, PICK_IDLE_IN_NODE);
}

/* The CPU that is found on the first of these nodes that has one; -1 if none has. */
INLINE s32 cpu_within(struct task_struct *p, u64 within, find_cpu find) {
    struct bpf_iter_num each;
    s32 node, cpu = -1;

    begin_nodes(&each);
    while (cpu < 0 && (node = next_node(&each)) >= 0)
        if (within >> node & 1)
            cpu = find(p, node);
    bpf_iter_num_destroy(&each);
    return cpu;
}

/* An idle CPU on these nodes that the affinity allows; -1 if there is none. */
INLINE s32 idle_cpu_within(struct task_struct *p, u64 within) {
    return cpu_within(p, within, idle_cpu_at);
}

/* A CPU on these nodes that the affinity allows; -1 if there is none. */
INLINE s32 any_cpu_within(struct task_struct *p, u64 within) {
    return cpu_within(p, within, any_cpu_at);
}

/* An idle CPU, at home first, and never on an avoided node; -1 if there is none. */
INLINE s32 idle_cpu(struct task_struct *p, u64 home) {
    s32 cpu = idle_cpu_within(p, home);

    return cpu >= 0 ? cpu : idle_cpu_within(p, ~home & ~avoided_nodes());
}

SEC("raw_tp/select_cpu")
s32 homes_select_cpu(u64 *args) {
    struct task_struct *p = (void *)ARGUMENT(args, 0);
    s32 last = ARGUMENT(args, 1), cpu;
    u64 home = nodes_of(p);
    bool is_idle = 0;

    if (!home) {
        cpu = scx_bpf_select_cpu_dfl(p, last, ARGUMENT(args, 2), &is_idle);
        if (is_idle)
            scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_NS, 0);
        return cpu;
    }
    if (is_on(last, home) && scx_bpf_test_and_clear_cpu_idle(last))
        cpu = last;
    else
        cpu = idle_cpu(p, home);
    if (cpu >= 0) {
        scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_NS, 0);
        return cpu;
    }
    if (is_on(last, home))
        return last;
    cpu = any_cpu_within(p, home);
    return cpu >= 0 ? cpu : last;
}

/* Tells whether a thread must stay on its CPU. A program of BPF that interrupts a thread disables
 * its migration once itself, on some kernels. */
INLINE bool is_bound(struct task_struct *p) {
    if (p->nr_cpus_allowed == 1)
        return 1;
    return p->migration_disabled > (p == current_task() ? 1 : 0);
}

/* Places a thread in the time of a node: as far ahead of it or behind it as where it was. */
INLINE struct node *enter(struct thread *t, u32 to) {
    struct node *old = node_at(t->node), *new = node_at(to);

    if (!old || !new)
        return 0;
    if (t->node != to)
        t->vtime += new->vtime - old->vtime;
    t->node = to;
    if (is_before(t->vtime, new->vtime - LAG_NS))
        t->vtime = new->vtime - LAG_NS;
    return new;
}

/* Preempts the thread on a CPU if it has had much more than the one that wakes. */
INLINE void preempt(s32 at, struct thread *t) {
    struct cpu *cpu = cpu_at(at);

    if (cpu && cpu->node == t->node &&
        is_before(t->vtime + PREEMPT_NS, cpu->vtime + (scx_bpf_now() - cpu->began_ns)))
        scx_bpf_kick_cpu(at, KICK_PREEMPT);
}

/* A CPU of a node that runs a thread which is not at home there, and that the affinity of another
 * one allows; -1 if there is none known. It is told once. */
INLINE s32 guest_cpu_at(struct task_struct *p, s32 node) {
    struct node *at = node_at(node);
    s32 found = at ? (s32)at->guest_cpu - 1 : -1;
    struct cpu *cpu = found >= 0 ? cpu_at(found) : 0;

    if (!cpu || !cpu->has_guest || !bpf_cpumask_test_cpu(found, p->cpus_ptr))
        return -1;
    cpu->has_guest = 0;
    at->guest_cpu = 0;
    return found;
}

/* Sends a thread home from elsewhere, if there is a CPU for it. */
INLINE bool go_home(struct task_struct *p, u64 home, u64 flags) {
    s32 cpu = idle_cpu_within(p, home);

    if (cpu < 0) {
        cpu = cpu_within(p, home, guest_cpu_at);
        if (cpu < 0)
            return 0;
        flags |= ENQ_PREEMPT;
    }
    scx_bpf_dsq_insert(p, DSQ_LOCAL_ON | (u32)cpu, SLICE_NS, flags);
    return 1;
}

SEC("raw_tp/enqueue")
s32 homes_enqueue(u64 *args) {
    struct task_struct *p = (void *)ARGUMENT(args, 0);
    u64 flags = ARGUMENT(args, 1), home = nodes_of(p);
    s32 at = scx_bpf_task_cpu(p), cpu;
    bool is_away = home && !is_on(at, home);
    struct thread *t = thread_of(p);
    struct node *node;
    u32 to;

    /* The kernel's own threads of a CPU serve others, and sleep again at once. */
    if (!t || ((p->flags & PF_KTHREAD) && p->nr_cpus_allowed == 1 && (flags & ENQ_WAKEUP)))
        goto local;
    if (is_away && !is_bound(p)) {
        if (go_home(p, home, flags & ~ENQ_LAST))
            return 0;
        cpu = any_cpu_within(p, home);
        if (cpu >= 0)
            at = cpu;
    }
    if (flags & ENQ_LAST)
        goto local;
    to = node_of_cpu(at);
    node = enter(t, to);
    if (node && !scx_bpf_dsq_nr_queued(to))
        node->served_ns = scx_bpf_now();
    scx_bpf_dsq_insert_vtime(p, to, SLICE_NS, t->vtime, flags);
    cpu = idle_cpu(p, home);
    if (cpu >= 0)
        scx_bpf_kick_cpu(cpu, KICK_IDLE);
    else if (flags & ENQ_WAKEUP)
        preempt(at, t);
    return 0;
local:
    scx_bpf_dsq_insert(p, DSQ_LOCAL, SLICE_NS, flags);
    return 0;
}

INLINE bool take(u32 from, u64 now_ns) {
    struct node *node = node_at(from);

    if (!scx_bpf_dsq_nr_queued(from) || !scx_bpf_dsq_move_to_local(from))
        return 0;
    if (node)
        node->served_ns = now_ns;
    return 1;
}

INLINE bool is_overdue(u32 at, u64 now_ns) {
    struct node *node = node_at(at);

    return node && scx_bpf_dsq_nr_queued(at) && now_ns - node->served_ns > OVERDUE_NS;
}

/* The node whose queue this CPU is to look at now, besides its own; the own one if none. */
INLINE u32 visited_now(s32 at, u32 own, u64 now_ns) {
    struct cpu *cpu = cpu_at(at);

    if (!cpu || now_ns - cpu->visited_ns < VISIT_NS)
        return own;
    cpu->visited_ns = now_ns;
    cpu->visited = cpu->visited + 1 < scx_bpf_nr_node_ids() ? cpu->visited + 1 : 0;
    return cpu->visited & (NODES_MAX - 1);
}

/* Takes a thread that has waited for long in the queue of another node. */
INLINE bool take_overdue(s32 at, u32 own, u64 now_ns) {
    u32 visited = visited_now(at, own, now_ns);
    struct counts *counts = counts_of_this_cpu();
    struct bpf_iter_num each;
    bool taken = 0;
    s32 node;

    begin_nodes(&each);
    while (!taken && (node = next_node(&each)) >= 0)
        if (node != own && (node == visited || is_overdue(node, now_ns)))
            taken = take(node, now_ns);
    bpf_iter_num_destroy(&each);
    if (taken && counts)
        counts->overdue++;
    return taken;
}

INLINE void take_elsewhere(u32 own, u64 now_ns) {
    struct bpf_iter_num each;
    bool taken = 0;
    s32 node;

    begin_nodes(&each);
    while (!taken && (node = next_node(&each)) >= 0)
        if (node != own)
            taken = take(node, now_ns);
    bpf_iter_num_destroy(&each);
}

/* A thread runs on from now on this CPU, or begins to. */
INLINE void begin(struct task_struct *p, struct thread *t, struct cpu *cpu, s32 at) {
    struct node *here = node_at(node_of_cpu(at)), *node = node_at(t->node);
    u64 home = nodes_of(p);

    if (!here || !node)
        return;
    if (is_before(node->vtime, t->vtime))
        node->vtime = t->vtime;
    else if (is_before(t->vtime, node->vtime - LAG_NS))
        t->vtime = node->vtime - LAG_NS;
    t->began_ns = scx_bpf_now();
    cpu->vtime = t->vtime;
    cpu->began_ns = t->began_ns;
    cpu->node = t->node;
    cpu->has_guest = home && !is_on(at, home);
    if (cpu->has_guest)
        here->guest_cpu = at + 1;
}

/* Enters the time that a thread ran since `begin`. */
INLINE void charge(struct task_struct *p, struct thread *t, struct cpu *cpu) {
    u64 ran_ns = scx_bpf_now() - t->began_ns;
    struct counts *counts = counts_of_this_cpu();
    u32 tid = p->pid, weight = p->scx.weight;

    if (weight)
        t->vtime += ran_ns * WEIGHT_DEFAULT / weight;
    if (!counts || !map_lookup(&homes, &tid))
        return;
    if (cpu->has_guest)
        counts->elsewhere_ns += ran_ns;
    else
        counts->at_home_ns += ran_ns;
}

/* The thread that runs goes on, if it is at home. One that is not comes to `enqueue`, by ENQ_LAST. */
INLINE void go_on(struct task_struct *p, s32 at) {
    u64 home = nodes_of(p);
    struct thread *t = thread_of(p);
    struct cpu *cpu = cpu_at(at);

    if (home && !is_on(at, home))
        return;
    p->scx.slice = SLICE_NS;
    if (t && cpu) {
        charge(p, t, cpu);
        begin(p, t, cpu, at);
    }
}

SEC("raw_tp/dispatch")
s32 homes_dispatch(u64 *args) {
    s32 cpu = ARGUMENT(args, 0);
    struct task_struct *last = (void *)ARGUMENT(args, 1);
    u32 own = node_of_cpu(cpu);
    bool is_avoided = avoided_nodes() >> own & 1;
    u64 now_ns = scx_bpf_now();

    if ((!is_avoided && take_overdue(cpu, own, now_ns)) || take(own, now_ns))
        return 0;
    if (last && last->scx.flags & TASK_QUEUED) {
        go_on(last, cpu);
        return 0;
    }
    if (!is_avoided)
        take_elsewhere(own, now_ns);
    return 0;
}

SEC("raw_tp/running")
s32 homes_running(u64 *args) {
    struct task_struct *p = (void *)ARGUMENT(args, 0);
    s32 at = scx_bpf_task_cpu(p);
    struct thread *t = thread_of(p);
    struct cpu *cpu = cpu_at(at);

    if (t && cpu)
        begin(p, t, cpu, at);
    return 0;
}

SEC("raw_tp/stopping")
s32 homes_stopping(u64 *args) {
    struct task_struct *p = (void *)ARGUMENT(args, 0);
    struct thread *t = thread_of(p);
    struct cpu *cpu = cpu_at(scx_bpf_task_cpu(p));

    if (t && cpu) {
        charge(p, t, cpu);
        cpu->has_guest = 0;
    }
    return 0;
}

/* A thread that a program starts has the home of the thread that starts it. */
INLINE void inherit(struct task_struct *p, u32 tid) {
    struct task_struct *starter = current_task();
    u32 from = starter->pid;
    u64 *home = starter->tgid == p->tgid && from != tid ? map_lookup(&homes, &from) : 0;

    if (home)
        map_update(&homes, &tid, home, 0);
}

SEC("raw_tp/init_task")
s32 homes_init_task(u64 *args) {
    struct task_struct *p = (void *)ARGUMENT(args, 0);
    u32 at = node_of_cpu(scx_bpf_task_cpu(p)), tid = p->pid;
    struct counts *counts = counts_of_this_cpu();
    struct node *node = node_at(at);
    struct thread t = {.node = at};

    if (node)
        t.vtime = node->vtime;
    if (map_update(&threads, &tid, &t, 0) && counts)
        counts->unordered++;
    inherit(p, tid);
    return 0;
}

SEC("raw_tp/exit_task")
s32 homes_exit_task(u64 *args) {
    struct task_struct *p = (void *)ARGUMENT(args, 0);
    u32 tid = p->pid;

    /* The next thread of this number has no home yet. */
    map_delete(&homes, &tid);
    map_delete(&threads, &tid);
    return 0;
}

/* Without these two the kernel unloads the scheduler when a CPU comes or goes. */
SEC("raw_tp/cpu_online")
s32 homes_cpu_online(u64 *args) {
    return 0;
}

SEC("raw_tp/cpu_offline")
s32 homes_cpu_offline(u64 *args) {
    return 0;
}

SEC("raw_tp/init")
s32 homes_init(u64 *args) {
    struct bpf_iter_num each;
    s32 node, error = 0;

    begin_nodes(&each);
    while (!error && (node = next_node(&each)) >= 0)
        error = scx_bpf_create_dsq(node, -1);
    bpf_iter_num_destroy(&each);
    return error;
}

SEC("raw_tp/exit")
s32 homes_exit(u64 *args) {
    struct scx_exit_info *info = (void *)ARGUMENT(args, 0);
    u32 zero = 0;
    struct end *end = map_lookup(&ended, &zero);

    if (!end)
        return 0;
    read_kernel_string(end->reason, sizeof(end->reason), info->reason);
    read_kernel_string(end->message, sizeof(end->message), info->msg);
    end->kind = info->kind;
    return 0;
}
