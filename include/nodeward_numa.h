/* The calls of libnodeward for groups, by the names under which they were proposed for Linux in 2012
 * (sched/numa: sys_numa_tbind, sys_numa_mbind). Include this only where nothing else has these names.
 * As the system calls would, they return the negative number of an error.
 */

#ifndef NODEWARD_NUMA_H
#define NODEWARD_NUMA_H

#include <limits.h>

#include "nodeward.h"

/* A group of -1 is a new one, of -2 asks for that of the thread: see nodeward_tbind(). */
static inline int numa_tbind(int tid, int ng_id, unsigned long flags)
{
    return nodeward_tbind(tid, ng_id, flags != 0);
}

/* See nodeward_mbind(). MPOL_MF_LAZY is NODEWARD_MBIND_LAZY. */
static inline int numa_mbind(void *addr, unsigned long len, int ng_id, unsigned long flags)
{
    return nodeward_mbind(addr, len, ng_id, flags > UINT_MAX ? UINT_MAX : (unsigned int)flags);
}

#endif /* NODEWARD_NUMA_H */
