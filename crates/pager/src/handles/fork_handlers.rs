//! Handling of fork(2) while pages are out of sight, which the child would read as zeros. Before a
//! fork, taking pages out is stopped and pages that are out come back; after the fork, migration
//! continues. The child has a copy of the memory and a pager that refuses to work, because the
//! pager's threads do not exist in the child.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::pager_shared::PagerShared;
use crate::error::{Result, system};
use crate::migration::HeldBusyCpus;
use crate::sync::lock;
use crate::sys::on_fork;

static PAGERS: Mutex<PagerList> = Mutex::new(PagerList { all: Vec::new(), has_hooks: false });

thread_local! {
    /// The fork of this thread. `ManuallyDrop` because nothing may be dropped at the thread's end:
    /// a thread-local with a destructor is gone when other values are dropped, and their
    /// destructors may fork.
    static FORK: Cell<Option<ManuallyDrop<PendingFork>>> = const { Cell::new(None) };
}

/// Registers a pager for every later fork.
pub fn register(pager: &Arc<PagerShared>) -> Result<()> {
    let mut pagers = lock(&PAGERS);
    if !pagers.has_hooks {
        on_fork(prepare, parent, child).map_err(system("pthread_atfork"))?;
        pagers.has_hooks = true;
    }
    pagers.all.retain(|pager| pager.strong_count() > 0);
    pagers.all.push(Arc::downgrade(pager));
    Ok(())
}

struct PagerList {
    all: Vec<Weak<PagerShared>>,
    has_hooks: bool,
}

/// A fork that has begun.
struct PendingFork {
    paused: Vec<Arc<PagerShared>>,
    /// The lock of the list, held by the forking thread. If another thread held it when the child
    /// is made, it would stay locked in the child for ever.
    list: MutexGuard<'static, PagerList>,
    /// Likewise.
    busy_cpus: HeldBusyCpus,
}

extern "C" fn prepare() {
    let list = lock(&PAGERS);
    let waiting: Vec<Arc<PagerShared>> = list.all.iter().filter_map(Weak::upgrade).collect();
    waiting.iter().for_each(|pager| pager.pause());
    let busy_cpus = HeldBusyCpus::hold();
    FORK.set(Some(ManuallyDrop::new(PendingFork { paused: waiting, list, busy_cpus })));
}

fn take_pending() -> Option<PendingFork> {
    FORK.take().map(ManuallyDrop::into_inner)
}

extern "C" fn parent() {
    let Some(PendingFork { paused: waiting, list, busy_cpus }) = take_pending() else { return };
    drop(busy_cpus);
    waiting.iter().for_each(|pager| pager.resume());
    drop(list); // unlocked first: ours may be the last handle of a pager, and its end may take long
}

extern "C" fn child() {
    let Some(PendingFork { paused: waiting, busy_cpus, list }) = take_pending() else { return };
    drop(list);
    busy_cpus.reset();
    // Dropping the handles in the child must not end what belongs to the parent. A handle that is
    // dropped late does nothing (see `PagerShared::is_owner_process`), so these may be forgotten.
    waiting.into_iter().for_each(std::mem::forget);
}
