//! fork(2) while pages are out of sight: the child would read zeros there. So before a fork nobody
//! may take pages out any more, and what is out comes back; afterwards it goes on. The child has a
//! copy of the memory and a pager that refuses to work: its threads are not there.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::error::{Result, system};
use crate::pager::Inner;
use crate::sync::lock;
use crate::sys::on_fork;

static PAGERS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());
static HOOKED: OnceLock<()> = OnceLock::new();

thread_local! {
    /// The pagers that wait for this thread's fork.
    static WAITING: RefCell<Vec<Arc<Inner>>> = const { RefCell::new(Vec::new()) };
}

/// Has a pager take part in every fork from now on.
pub fn join(pager: &Arc<Inner>) -> Result<()> {
    if HOOKED.get().is_none() {
        on_fork(before, parent, child).map_err(system("pthread_atfork"))?;
        HOOKED.get_or_init(|| ());
    }
    let mut pagers = lock(&PAGERS);
    pagers.retain(|pager| pager.strong_count() > 0);
    pagers.push(Arc::downgrade(pager));
    Ok(())
}

extern "C" fn before() {
    let pagers: Vec<Arc<Inner>> = lock(&PAGERS).iter().filter_map(Weak::upgrade).collect();
    pagers.iter().for_each(|pager| pager.pause());
    WAITING.with_borrow_mut(|waiting| waiting.extend(pagers));
}

extern "C" fn parent() {
    let pagers = WAITING.take();
    pagers.iter().for_each(|pager| pager.resume());
}

extern "C" fn child() {
    // The handles in the child must not end what is the parent's; one that is dropped late does
    // nothing (see `Inner::is_of_parent`), so these may be forgotten.
    WAITING.take().into_iter().for_each(std::mem::forget);
}
