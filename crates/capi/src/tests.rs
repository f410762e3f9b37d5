//! Structs of other ages, numbers without a meaning, and how errors come back. What needs a pager
//! is tested from C, in `tests/calls.c`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{offset_of, zeroed};
use std::{io, ptr, thread};

use nodeward::{Account, Error, NodeId, PageSize, PoolError, PoolOptions, PoolStats};
use nodeward::{MigrationReport, SkipReason, TunerKind};

use crate::cancel::*;
use crate::machine::*;
use crate::options::*;
use crate::pager::nodeward_pager_open;
use crate::pool::NodewardPoolStats;
use crate::region::NodewardNodePages;
use crate::report::*;
use crate::sized::{self, Versioned};
use crate::status::*;

const OK: c_int = NodewardStatus::Ok as c_int;
const ARGUMENT: c_int = NodewardStatus::Argument as c_int;

fn text_of(text: *const c_char) -> String {
    // SAFETY: the library says that it is a text.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

fn last_error() -> String {
    text_of(nodeward_last_error())
}

fn zeroed_struct<T: Versioned>() -> T {
    // SAFETY: zeros are valid, says the trait.
    unsafe { zeroed() }
}

/// Programs that were compiled against version 0 stay right only if these never change. On 64 bits:
/// sums of 8 for pointers, size_t and uint64_t, and 4 for uint32_t.
#[cfg(target_pointer_width = "64")]
#[test]
fn the_first_version_of_each_struct_stays_what_it_was() {
    assert_eq!(NodewardPagerOptions::FIRST_SIZE, 2 * 8 + 2 * 4);
    assert_eq!(NodewardRegionOptions::FIRST_SIZE, 8 + 4 * 4 + 2 * 8);
    assert_eq!(NodewardMigration::FIRST_SIZE, 4 * 8 + 2 * 4 + 4 * 8);
    assert_eq!(NodewardPoolOptions::FIRST_SIZE, 3 * 8 + 6 * 4);
    assert_eq!(NodewardPoolStats::FIRST_SIZE, 9 * 8);
    assert_eq!(NodewardReport::FIRST_SIZE, 4 * 8 + 32 * 8 + 10 * 8 + 2 * 4);
    assert_eq!(size_of::<NodewardNodePages>(), 2 * 8);
    assert_eq!(offset_of!(NodewardMigration, progress), 4 * 8 + 2 * 4 + 8);
    assert_eq!(offset_of!(NodewardReport, skipped_by_reason), 4 * 8);
}

/// A struct of a version 0, `size` and `old`, which grew by a field.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct GrownStruct {
    size: usize,
    old: u64,
    new: u64,
}

// SAFETY: numbers only, without padding, size first; zeros are valid.
unsafe impl Versioned for GrownStruct {
    const NAME: &'static str = "grown";
    const FIRST_SIZE: usize = offset_of!(GrownStruct, new);
}

#[test]
fn a_struct_of_an_older_program_reads_as_zero_where_it_ends() {
    let size = GrownStruct::FIRST_SIZE;
    let theirs = GrownStruct { size, old: 5, new: 77 }; // 77 lies behind the end of theirs
    // SAFETY: it has more bytes than its size says.
    let ours = unsafe { sized::read(&raw const theirs) }.unwrap();
    assert_eq!(ours, GrownStruct { size, old: 5, new: 0 });
}

#[test]
fn a_struct_of_an_older_program_is_not_written_behind_its_end() {
    let size = GrownStruct::FIRST_SIZE;
    let mut theirs = GrownStruct { size, old: 5, new: 77 };
    // SAFETY: it has more bytes than its size says.
    unsafe { sized::write(&raw mut theirs, &GrownStruct { size: 1, old: 6, new: 8 }) }.unwrap();
    assert_eq!(theirs, GrownStruct { size, old: 6, new: 77 });
}

#[test]
fn a_struct_of_a_newer_program_is_taken_if_it_asks_for_nothing_new() {
    let mut theirs =
        [GrownStruct { size: 2 * size_of::<GrownStruct>(), old: 5, new: 6 }, zeroed_struct()];
    // SAFETY: two of them have the size that the first says.
    let ours = unsafe { sized::read(theirs.as_ptr()) }.unwrap();
    assert_eq!((ours.old, ours.new), (5, 6));
    theirs[1].new = 1;
    // SAFETY: two of them have the size that the first says.
    let refused = unsafe { sized::read(theirs.as_ptr()) };
    assert_eq!(status_of(|| refused.map(drop)), ARGUMENT);
    let wanted = "struct grown asks for what this library does not know; install a newer one";
    assert_eq!(last_error(), wanted);
}

#[test]
fn what_a_newer_program_has_more_is_written_as_zero() {
    let mut theirs = [GrownStruct { size: 2 * size_of::<GrownStruct>(), old: 1, new: 1 }; 2];
    // SAFETY: two of them have the size that the first says.
    unsafe { sized::write(theirs.as_mut_ptr(), &GrownStruct { size: 1, old: 6, new: 8 }) }.unwrap();
    let first = GrownStruct { size: 2 * size_of::<GrownStruct>(), old: 6, new: 8 };
    assert_eq!(theirs, [first, zeroed_struct()]);
}

/// No size, and sizes that nobody can mean: one byte less than version 0, and one more than any.
#[test]
fn a_size_that_was_never_set_is_refused() {
    for size in [0, NodewardPagerOptions::FIRST_SIZE - 1, 4097, usize::MAX] {
        let options = NodewardPagerOptions { size, ..zeroed_struct() };
        let mut pager = ptr::null_mut();
        // SAFETY: the size is refused before anything behind it is read.
        let status = unsafe { nodeward_pager_open(&raw const options, &raw mut pager) };
        assert_eq!(status, ARGUMENT);
        assert!(pager.is_null());
        let wanted = "set it to sizeof(struct nodeward_pager_options)";
        assert!(last_error().ends_with(wanted), "{}", last_error());
    }
}

#[test]
fn numbers_without_a_meaning_are_refused() {
    let size = size_of::<NodewardRegionOptions>();
    let all = [
        (NodewardRegionOptions { size, page: 2, ..zeroed_struct() }, "enum nodeward_page"),
        (NodewardRegionOptions { size, mode: 2, ..zeroed_struct() }, "enum nodeward_mode"),
        (NodewardRegionOptions { size, fork: 2, ..zeroed_struct() }, "enum nodeward_fork"),
        (
            NodewardRegionOptions { size, flags: 2, ..zeroed_struct() },
            "set only what the header names",
        ),
        (
            NodewardRegionOptions { size, node_count: 1, ..zeroed_struct() },
            "nodes is NULL; pass a pointer",
        ),
    ];
    for (options, advice) in all {
        // SAFETY: the struct has the size that it says, and no nodes.
        let read = unsafe { region(&raw const options) };
        assert_eq!(status_of(|| read.map(drop)), ARGUMENT);
        assert!(last_error().ends_with(advice), "{} / {advice}", last_error());
    }
    let options = NodewardPagerOptions {
        size: size_of::<NodewardPagerOptions>(),
        pool_bytes: 1,
        lanes: 0,
        flags: NODEWARD_PAGER_NO_POOL,
    };
    // SAFETY: the struct has the size that it says.
    let read = unsafe { pager(&raw const options) };
    assert_eq!(status_of(|| read.map(drop)), ARGUMENT);
}

#[test]
fn zero_is_the_default() {
    let size = size_of::<NodewardMigration>();
    let how = NodewardMigration { size, ..zeroed_struct() };
    for how in [ptr::null(), &raw const how] {
        // SAFETY: NULL, or a struct of the size that it says.
        let same = unsafe {
            with_migration(how, |how| {
                assert_eq!(format!("{how:?}"), format!("{:?}", nodeward::Migration::default()));
                Ok(how.progress.is_none() && how.cancel.is_none())
            })
        };
        assert!(same.unwrap());
    }
}

#[test]
fn every_setting_of_a_migration_arrives() {
    unsafe extern "C" fn add(user: *mut c_void, examined_bytes: u64, total_bytes: u64) {
        // SAFETY: the test below hands over a number.
        unsafe { *user.cast::<u64>() += examined_bytes + total_bytes };
    }
    let cancel = nodeward_cancel_new();
    let mut sum = 0u64;
    let how = NodewardMigration {
        size: size_of::<NodewardMigration>(),
        bytes_per_s: 1,
        stall_ns: 2,
        batch_bytes: 3,
        lanes: 4,
        supply: NodewardSupply::OneWay as u32,
        flags: NODEWARD_MIGRATION_EVEN_IF_THERE.into(),
        progress: Some(add),
        user: (&raw mut sum).cast(),
        cancel,
        arrive: NodewardArrive::Huge as u64,
    };
    let run = |how: &nodeward::Migration<'_>| {
        assert_eq!(how.budget.bytes_per_s, Some(1));
        assert_eq!(how.budget.stall.map(|stall| stall.as_nanos()), Some(2));
        assert_eq!((how.batch_bytes, how.lanes), (Some(3), Some(4)));
        assert_eq!((how.supply, how.even_if_there), (nodeward::Supply::OneWay, true));
        assert_eq!(how.arrive, Some(nodeward::Arrive::Huge));
        how.progress.unwrap()(nodeward::Progress { examined_bytes: 10, total_bytes: 20 });
        // SAFETY: it is freed below.
        unsafe { nodeward_cancel_set(cancel) };
        Ok(how.cancel.unwrap().is_cancelled())
    };
    // SAFETY: a struct of the size that it says, and all that it names lives.
    assert!(unsafe { with_migration(&raw const how, run) }.unwrap());
    assert_eq!(sum, 10 + 20);
    // SAFETY: nobody uses it again.
    unsafe { nodeward_cancel_free(cancel) };
}

/// What C asks of a pool, as Rust would.
fn pool_options(theirs: NodewardPoolOptions) -> Result<PoolOptions, CallFailure> {
    let theirs = NodewardPoolOptions { size: size_of::<NodewardPoolOptions>(), ..theirs };
    // SAFETY: the struct has the size that it says.
    unsafe { pool(&raw const theirs) }
}

#[test]
fn zero_is_the_default_of_a_pool() {
    let default = PoolOptions { period: std::time::Duration::ZERO, ..PoolOptions::default() };
    // SAFETY: NULL is what is tested.
    let of_null = unsafe { pool(ptr::null()) };
    for options in [pool_options(zeroed_struct()), of_null] {
        assert_eq!(format!("{:?}", options.unwrap()), format!("{default:?}"), "zero is a second");
    }
}

#[test]
fn every_setting_of_a_pool_arrives() {
    let theirs = NodewardPoolOptions {
        size: 0,
        zone_bytes: 1,
        keep_bytes: 2,
        tuning: NodewardTuning::Events as u32,
        page: NodewardPage::Huge as u32,
        batch: 3,
        high_default: 4,
        period_ms: 5,
        flags: NODEWARD_POOL_NO_HOUSEKEEPER,
    };
    let ours = pool_options(theirs).unwrap();
    assert_eq!((ours.zone_bytes, ours.keep_bytes), (Some(1), 2));
    assert_eq!((ours.tuning, ours.page), (TunerKind::Events, PageSize::Huge));
    assert_eq!((ours.batch, ours.high_default), (Some(3), Some(4)));
    assert_eq!((ours.period.as_millis(), ours.housekeeper), (5, false));

    let no_lists = NodewardPoolOptions { flags: NODEWARD_POOL_NO_LISTS, ..zeroed_struct() };
    assert_eq!(pool_options(no_lists).unwrap().high_default, Some(0));
    let tunings = [TunerKind::default(), TunerKind::Fixed, TunerKind::Depth, TunerKind::Events];
    for (tuning, wanted) in (0..).zip(tunings) {
        let ours = pool_options(NodewardPoolOptions { tuning, ..zeroed_struct() }).unwrap();
        assert_eq!(ours.tuning, wanted);
    }
}

#[test]
fn settings_of_a_pool_without_a_meaning_are_refused() {
    let all = [
        (NodewardPoolOptions { tuning: 4, ..zeroed_struct() }, "take one of enum nodeward_tuning"),
        (NodewardPoolOptions { page: 2, ..zeroed_struct() }, "take one of enum nodeward_page"),
        (NodewardPoolOptions { flags: 4, ..zeroed_struct() }, "set only what the header names"),
        (
            NodewardPoolOptions {
                flags: NODEWARD_POOL_NO_LISTS,
                high_default: 1,
                ..zeroed_struct()
            },
            "exclude each other; choose one",
        ),
    ];
    for (theirs, advice) in all {
        assert_eq!(status_of(|| pool_options(theirs).map(drop)), ARGUMENT);
        assert!(last_error().ends_with(advice), "{} / {advice}", last_error());
    }
}

#[test]
fn statistics_of_a_pool_arrive_whole() {
    let ours = PoolStats {
        held_pages: 1,
        in_use_pages: 2,
        listed_pages: 3,
        zone_free_pages: 4,
        peak_held_pages: 5,
        zone_visits: 6,
        allocated_pages: 7,
        freed_pages: 8,
        lists: Vec::new(),
    };
    let theirs = NodewardPoolStats::from(&ours);
    assert_eq!((theirs.held_pages, theirs.in_use_pages), (1, 2));
    assert_eq!((theirs.listed_pages, theirs.zone_free_pages), (3, 4));
    assert_eq!((theirs.peak_held_pages, theirs.zone_visits), (5, 6));
    assert_eq!((theirs.allocated_pages, theirs.freed_pages), (7, 8));
}

#[test]
fn each_error_of_a_pool_has_its_status_and_keeps_its_words() {
    let (address, node) = (4096, NodeId(3));
    let wrong_order = PoolError::WrongOrder { address, allocated: 1, freed: 2 };
    let all = [
        (PoolError::Order { order: 10, order_max: 9 }, NodewardStatus::RunTooLong),
        (PoolError::UnknownNode { node }, NodewardStatus::UnknownNode),
        (PoolError::NoMemory { order: 1 }, NodewardStatus::NoRoom),
        (PoolError::NotOurs { address }, NodewardStatus::NotOurs),
        (PoolError::NotAStart { address }, NodewardStatus::NotAStart),
        (wrong_order, NodewardStatus::WrongOrder),
        (PoolError::DoubleFree { address }, NodewardStatus::DoubleFree),
        (PoolError::WrittenAfterFree { address }, NodewardStatus::WrittenAfterFree),
        (PoolError::Closed, NodewardStatus::PoolClosed),
        (PoolError::Forked, NodewardStatus::Forked),
    ];
    for (error, status) in all {
        assert_eq!(status_of(|| Err(error.into())), status as c_int);
        assert_eq!(last_error(), error.to_string());
    }
}

#[test]
fn each_error_has_its_status_and_keeps_its_words() {
    let node = NodeId(3);
    let all = [
        (Error::Unaligned { start: 1, end: 2, page_bytes: 4096 }, NodewardStatus::Unaligned),
        (Error::OutOfRegion { start: 0, end: 9, region_bytes: 8 }, NodewardStatus::OutOfRegion),
        (Error::UnknownNode { node }, NodewardStatus::UnknownNode),
        (Error::BadOption { problem: "a".into(), remedy: "b".into() }, NodewardStatus::BadOption),
        (Error::NoHugePages { reason: "a".into() }, NodewardStatus::NoHugePages),
        (
            Error::NeedsUserfaultfd { feature: "a", reason: "b".into() },
            NodewardStatus::NeedsUserfaultfd,
        ),
        (Error::Forked, NodewardStatus::Forked),
        (Error::Closing, NodewardStatus::Closing),
        (Error::NoRoom { node }, NodewardStatus::NoRoom),
        (
            Error::NoDescriptor { action: "a", owner: "b", remedy: "c" },
            NodewardStatus::NoDescriptor,
        ),
        (Error::System { call: "a", source: io::Error::other("b") }, NodewardStatus::System),
    ];
    for (error, status) in all {
        let said = error.to_string();
        assert_eq!(status_of(|| Err(error.into())), status as c_int);
        assert_eq!(last_error(), said);
    }
}

#[test]
fn each_thread_has_its_own_last_error() {
    assert_eq!(status_of(|| Err(CallFailure::Argument("ours\0".to_owned()))), ARGUMENT);
    let theirs = thread::spawn(|| {
        let before = last_error();
        status_of(|| Err(CallFailure::Argument("theirs".to_owned())));
        (before, last_error())
    });
    assert_eq!(theirs.join().unwrap(), (String::new(), "theirs".to_owned()));
    assert_eq!(last_error(), "ours", "C ends at a NUL, so it is left out");
    assert_eq!(status_of(|| Ok(())), OK);
    assert_eq!(last_error(), "ours", "success keeps it, as it keeps errno");
}

#[test]
fn every_reason_has_a_slot_of_its_own_and_later_slots_have_none() {
    let count = u32::try_from(SkipReason::ALL.len()).unwrap();
    let names: Vec<String> = (0..count).map(|slot| text_of(nodeward_skip_name(slot))).collect();
    let mut wanted = SkipReason::ALL.map(SkipReason::name).map(str::to_owned);
    wanted.sort();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(sorted, wanted);
    assert_eq!(names[0], "pinned");
    assert_eq!(text_of(nodeward_skip_advice(0)), SkipReason::Pinned.advice());
    for slot in [count, 31, 32, u32::MAX] {
        assert!(nodeward_skip_name(slot).is_null() && nodeward_skip_advice(slot).is_null());
    }
}

#[test]
fn a_report_arrives_whole() {
    let mut account = Account { moved: 10, already_there: 20, ..Account::default() };
    account.skip(SkipReason::Pinned, 3);
    account.skip(SkipReason::NoMemory, 4);
    let report = MigrationReport {
        account,
        lanes: 2,
        cancelled: true,
        took_ns: 9,
        ..MigrationReport::default()
    };
    let theirs = NodewardReport::from(&report);
    assert_eq!((theirs.moved_pages, theirs.already_there_pages), (10, 20));
    assert_eq!(theirs.skipped_pages, 3 + 4);
    assert_eq!(theirs.skipped_by_reason[NodewardSkip::Pinned as usize], 3);
    assert_eq!(theirs.skipped_by_reason[NodewardSkip::NoMemory as usize], 4);
    assert_eq!(theirs.skipped_by_reason.iter().sum::<u64>(), 3 + 4);
    assert_eq!((theirs.lanes, theirs.cancelled, theirs.took_ns), (2, 1, 9));
}

#[test]
fn nodes_are_listed_as_far_as_there_is_room() {
    let mut nodes = [u32::MAX; 1024];
    let (mut all, mut none) = (0, 0);
    // SAFETY: the array is as long as it is said to be.
    assert_eq!(unsafe { nodeward_nodes(nodes.as_mut_ptr(), 1024, &raw mut all) }, OK);
    assert!((1..1024).contains(&all));
    assert!(nodes[..all].is_sorted() && nodes[all] == u32::MAX);
    // SAFETY: no room is asked for.
    assert_eq!(unsafe { nodeward_nodes(ptr::null_mut(), 0, &raw mut none) }, OK);
    assert_eq!(none, all);
    // SAFETY: NULL is what is tested.
    assert_eq!(unsafe { nodeward_nodes(ptr::null_mut(), 1, &raw mut none) }, ARGUMENT);
}
