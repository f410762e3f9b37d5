//! Workers that announce themselves. No kernel asks for that. A simulated machine needs it, to run
//! threads of this process in the order of its virtual time.

/// Knows the threads of this process that work beside each other. The methods of a machine that
/// needs no announcement do nothing.
pub trait WorkerRegistry {
    /// Declares the calling thread worker `number` of `of` concurrent workers, until it calls
    /// [`WorkerRegistry::unregister_worker`]. A simulated machine waits for all of them and runs
    /// them one at a time, in the order of virtual time.
    fn register_worker(&self, _number: u32, _of: u32) {}

    /// Declares that the calling thread no longer works beside others.
    fn unregister_worker(&self) {}
}
