//! fork(2) while pages are out of sight: the child would read zeros there. So before a fork nobody
//! may take pages out any more, and what is out comes back; afterwards it goes on. The child has a
//! copy of the memory and a pager that refuses to work: its threads are not there.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::error::{Result, system};
use crate::pager::Inner;
use crate::sync::lock;
use crate::sys::on_fork;

static PAGERS: Mutex<Pagers> = Mutex::new(Pagers { all: Vec::new(), hooked: false });

struct Pagers {
    all: Vec<Weak<Inner>>,
    hooked: bool,
}

/// A fork that has begun.
struct Fork {
    waiting: Vec<Arc<Inner>>,
    /// The child needs the list: held by another thread when the child is made, it would stay
    /// locked there for ever. So the thread that forks has it.
    _list: MutexGuard<'static, Pagers>,
}

thread_local! {
    /// This thread's fork. Nothing is to be dropped at the thread's end: what is, is gone when
    /// other values are dropped, and their destructors may fork.
    static FORK: Cell<Option<ManuallyDrop<Fork>>> = const { Cell::new(None) };
}

/// Has a pager take part in every fork from now on.
pub fn join(pager: &Arc<Inner>) -> Result<()> {
    let mut pagers = lock(&PAGERS);
    if !pagers.hooked {
        on_fork(before, parent, child).map_err(system("pthread_atfork"))?;
        pagers.hooked = true;
    }
    pagers.all.retain(|pager| pager.strong_count() > 0);
    pagers.all.push(Arc::downgrade(pager));
    Ok(())
}

extern "C" fn before() {
    let list = lock(&PAGERS);
    let waiting: Vec<Arc<Inner>> = list.all.iter().filter_map(Weak::upgrade).collect();
    waiting.iter().for_each(|pager| pager.pause());
    FORK.set(Some(ManuallyDrop::new(Fork { waiting, _list: list })));
}

fn end() -> Option<Fork> {
    FORK.take().map(ManuallyDrop::into_inner)
}

extern "C" fn parent() {
    let Some(Fork { waiting, _list: list }) = end() else { return };
    waiting.iter().for_each(|pager| pager.resume());
    drop(list); // the last handle of a pager may be ours, and its end may take a while
}

extern "C" fn child() {
    let Some(Fork { waiting, .. }) = end() else { return };
    // The handles in the child must not end what is the parent's; one that is dropped late does
    // nothing (see `Inner::is_of_parent`), so these may be forgotten.
    waiting.into_iter().for_each(std::mem::forget);
}
