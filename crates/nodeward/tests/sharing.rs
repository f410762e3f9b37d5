//! Types of the library that threads may share.

use nodeward::{
    Cancel, Error, Group, GroupFailure, MigrationReport, PagePool, PageRun, Pager, PinGuard,
    PoolError, Region,
};

/// A program keeps its pager, pools and regions where all of its threads find them, as the
/// documentation says; that they can be is a promise of the types. It fails by not compiling.
#[test]
fn handles_may_be_used_by_all_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Pager>();
    shared::<Region>();
    shared::<PinGuard<'_>>();
    shared::<Cancel>();
    shared::<MigrationReport>();
    shared::<Error>();
    shared::<PagePool>();
    shared::<PageRun<'_>>();
    shared::<PoolError>();
    shared::<Group>();
    shared::<GroupFailure>();
}
