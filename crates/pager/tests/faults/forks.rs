//! fork(2) while pages are in flight or left out.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use nodeward_linux::interference::{ChildExit, fork_and_run, run_in_child};
use nodeward_linux::own_process::{AreaBacking, MappedArea, fork_idle};
use nodeward_model::SkipReason;
use nodeward_pager::{
    Error, ForkRule, PageSize, Pager, PagerOptions, Placement, Region, RegionOptions,
};
use rustix::process::{Signal, WaitOptions};

use crate::common::{
    CHUNK, HERE, IDLE_S, MIB, Stopper, assert_filled, even_if_there, fill, filled_region,
    first_wrong_word, in_subprocess, move_all, pager, pages, region, unmap_all_lazily, while_doing,
    while_moving,
};

const OK: ChildExit = ChildExit::Code(0);

/// Goal: a child has every word, whatever was in flight or left out when it was made; the parent
/// continues and loses nothing.
#[test]
fn a_child_has_all_words() {
    in_subprocess("forks::a_child_has_all_words", || {
        let Some(pager) = pager() else { return };
        for page in [PageSize::Base, PageSize::Huge] {
            let moving = filled_region(&pager, 8 * MIB, page);
            let lazy = filled_region(&pager, 4 * MIB, page);
            let check = || match (
                first_wrong_word(&moving, 0..8 * MIB),
                first_wrong_word(&lazy, 0..4 * MIB),
            ) {
                (None, None) => 0,
                (Some(_), _) => 1,
                (None, Some(_)) => 2,
            };
            let forks = || {
                for _ in 0..10 {
                    assert!(unmap_all_lazily(&lazy).lazy_pages > 0);
                    assert_eq!(run_in_child(check).unwrap(), OK, "{page:?}");
                    assert_filled(&lazy, 0..4 * MIB);
                }
            };
            let ((), moved) = while_moving(&moving, forks);
            assert!(moved > 0);
            assert_filled(&moving, 0..8 * MIB);
        }
    });
}

/// Goal: pages that are shared with a living child are refused with that reason; when it is gone
/// they move again.
#[test]
fn shared_pages_heal() {
    in_subprocess("forks::shared_pages_heal", || {
        let Some(pager) = pager() else { return };
        for page in [PageSize::Base, PageSize::Huge] {
            let region = filled_region(&pager, 4 * MIB, page);
            let child = fork_idle(IDLE_S).unwrap().number().cast_signed();
            let child = rustix::process::Pid::from_raw(child).unwrap();
            let report = move_all(&region);
            let shared = report.account.skipped_for(SkipReason::SharedAfterFork);
            assert_eq!(shared, pages(4 * MIB), "{page:?} {report:?}");
            rustix::process::kill_process(child, Signal::KILL).unwrap();
            rustix::process::waitpid(Some(child), WaitOptions::empty()).unwrap();
            let report = move_all(&region);
            assert_eq!(report.account.moved, pages(4 * MIB), "{page:?} {report:?}");
            assert_filled(&region, 0..4 * MIB);
        }
    });
}

/// Goal: a region that children do not inherit moves while they live.
#[test]
fn a_region_without_children() {
    in_subprocess("forks::a_region_without_children", || {
        let Some(pager) = pager() else { return };
        let region = dontfork_region(&pager);
        let child = fork_idle(IDLE_S).unwrap().number().cast_signed();
        assert_eq!(move_all(&region).account.moved, pages(4 * MIB));
        assert_filled(&region, 0..4 * MIB);
        let child = rustix::process::Pid::from_raw(child).unwrap();
        rustix::process::kill_process(child, Signal::KILL).unwrap();
    });
}

/// Goal: a child that drops its handle of such a region does not unmap what is mapped there
/// meanwhile, whichever method moves the pages.
#[test]
fn a_child_unmaps_nothing_of_others() {
    in_subprocess("forks::a_child_unmaps_nothing_of_others", || {
        for kernel_only in [true, false] {
            let options = PagerOptions { kernel_only, ..Default::default() };
            let pager = Pager::open(&options).unwrap();
            let region = dontfork_region(&pager);
            let start = region.as_ptr() as u64;
            let there = start..start + 4 * MIB as u64;
            let mut region = Some(region);
            let maps_there_and_drops = || {
                // Smaller than a huge page: the kernel would align larger ones to that.
                let area = || MappedArea::map(MIB, AreaBacking::Anonymous).unwrap();
                let overlaps = |area: &MappedArea| {
                    let end = area.address() + area.bytes() as u64;
                    area.address() < there.end && there.start < end
                };
                // Holes above it are filled first: up to 48 GiB of addresses.
                let mut areas: Vec<MappedArea> = Vec::new();
                while areas.len() < 50_000 && !areas.last().is_some_and(overlaps) {
                    areas.push(area());
                }
                let Some(area) = areas.last().filter(|last| overlaps(last)) else { return 3 };
                area.words().iter().for_each(|word| word.store(7, Relaxed));
                drop(region.take());
                u8::from(area.words().iter().any(|word| word.load(Relaxed) != 7))
            };
            assert_eq!(
                run_in_child(maps_there_and_drops).unwrap(),
                OK,
                "by the kernel: {kernel_only}"
            );
            assert_filled(region.as_ref().unwrap(), 0..4 * MIB);
        }
    });
}

/// Makes a region that children do not inherit.
fn dontfork_region(pager: &Pager) -> Region {
    let options = RegionOptions { fork: ForkRule::DontFork, ..Default::default() };
    let region = pager.reserve(4 * MIB, &options).unwrap();
    region.commit(0..4 * MIB, &Placement::Local).unwrap();
    fill(&region, 0..4 * MIB);
    region
}

/// Goal: in a child the parent's pager refuses to work and does no harm, neither by a second fork
/// nor when it is dropped. A pager that the child opens works.
#[test]
fn a_child_needs_its_own_pager() {
    in_subprocess("forks::a_child_needs_its_own_pager", || {
        let Some(pager) = pager() else { return };
        let region = filled_region(&pager, 4 * MIB, PageSize::Base);
        move_all(&region); // so that pages are kept
        unmap_all_lazily(&region);
        let mut both = Some((pager.clone(), region));
        let child = || {
            let (pager, region) = both.take().unwrap();
            let how = even_if_there(Default::default());
            let refused = [
                region.migrate(0..CHUNK, HERE, &how).map(drop),
                region.migrate_lazily(0..CHUNK, &how).map(drop),
                region.discard(0..CHUNK),
                region.commit(0..CHUNK, &Placement::Local),
                region.pin(0..CHUNK).map(drop),
                region.residency(0..CHUNK).map(drop),
                pager.reserve(CHUNK, &RegionOptions::default()).map(drop),
            ];
            assert!(refused.iter().all(|result| matches!(result, Err(Error::Forked))));
            assert_eq!(pager.trim(), 0);
            for _ in 0..3 {
                assert_eq!(
                    run_in_child(|| u8::from(first_wrong_word(&region, 0..4 * MIB).is_some()))
                        .unwrap(),
                    OK
                );
            }
            assert_filled(&region, 0..4 * MIB);
            drop((region, pager));
            let own = Pager::open(&PagerOptions::default()).unwrap();
            let region = filled_region(&own, 4 * MIB, PageSize::Base);
            assert_eq!(move_all(&region).account.moved, pages(4 * MIB));
            assert_eq!(
                run_in_child(|| u8::from(first_wrong_word(&region, 0..4 * MIB).is_some())).unwrap(),
                OK
            );
            assert_filled(&region, 0..4 * MIB);
            0
        };
        assert_eq!(run_in_child(child).unwrap(), OK);
        let (_, region) = both.take().unwrap();
        assert_filled(&region, 0..4 * MIB);
        assert!(pager.trim() > 0, "the parent has what the child has not");
    });
}

/// Goal: pagers and regions can begin and end while other threads fork.
#[test]
fn regions_come_and_go_during_forks() {
    in_subprocess("forks::regions_come_and_go_during_forks", || {
        let Some(pager) = pager() else { return };
        let come_and_go = || {
            let region = filled_region(&pager, 2 * MIB, PageSize::Base);
            unmap_all_lazily(&region);
            let other = Pager::open(&PagerOptions { lanes: Some(1), ..Default::default() });
            drop(other.unwrap());
            let report = move_all(&region);
            assert_filled(&region, 0..2 * MIB);
            report.account.selected()
        };
        let forks = || {
            let forks = || (0..25).for_each(|_| assert_eq!(run_in_child(|| 0).unwrap(), OK));
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                // As many as possible: one has to begin during a pause.
                scope.spawn(|| {
                    while !stop.load(Relaxed) {
                        drop(pager.reserve(1, &RegionOptions::default()).unwrap());
                    }
                });
                let _stopper = Stopper(&stop);
                let other = scope.spawn(forks);
                forks();
                other.join().unwrap();
            });
        };
        let ((), moved) = while_doing(come_and_go, forks);
        assert!(moved > 0);
        let region = region(&pager, 2 * MIB, PageSize::Base);
        assert_eq!(move_all(&region).account.selected(), pages(2 * MIB), "still at work");
    });
}

/// Goal: a progress callback may fork: each child has all words, and no word is lost in the parent.
#[test]
fn a_progress_callback_may_fork() {
    in_subprocess("forks::a_progress_callback_may_fork", || {
        let Some(pager) = pager() else { return };
        let region = filled_region(&pager, 8 * MIB, PageSize::Base);
        let forks = Cell::new(0);
        let fork = |_| {
            let child =
                fork_and_run(|| u8::from(first_wrong_word(&region, 0..8 * MIB).is_some())).unwrap();
            assert_eq!(child.wait().unwrap(), OK);
            forks.set(forks.get() + 1);
        };
        let how = nodeward_pager::Migration {
            progress: Some(&fork),
            ..even_if_there(Default::default())
        };
        region.migrate(0..8 * MIB, HERE, &how).unwrap();
        assert!(forks.get() > 0);
        assert_filled(&region, 0..8 * MIB);
    });
}

/// Goal: a thread that forked before may fork again while it ends, when its thread-local values are
/// gone: the child has all words.
#[test]
fn a_thread_forks_at_its_end() {
    /// Forks when the thread ends. Values that were made later are dropped before it.
    struct AtTheEnd(Cell<Option<fn()>>);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            self.0.take().into_iter().for_each(|fork| fork());
        }
    }
    thread_local! {
        static AT_THE_END: AtTheEnd = const { AtTheEnd(Cell::new(None)) };
    }
    static FORKS: AtomicU64 = AtomicU64::new(0);
    in_subprocess("forks::a_thread_forks_at_its_end", || {
        let Some(pager) = pager() else { return };
        static REGION: OnceLock<Region> = OnceLock::new();
        let region = REGION.get_or_init(|| filled_region(&pager, 4 * MIB, PageSize::Base));
        let forks = || {
            let region = REGION.get().unwrap();
            assert!(unmap_all_lazily(region).lazy_pages > 0);
            assert_eq!(
                run_in_child(|| u8::from(first_wrong_word(region, 0..4 * MIB).is_some())).unwrap(),
                OK
            );
            FORKS.fetch_add(1, Relaxed);
        };
        let begun = std::thread::spawn(move || {
            AT_THE_END.with(|end| end.0.set(Some(forks)));
            forks();
        });
        begun.join().unwrap();
        assert_eq!(FORKS.load(Relaxed), 2);
        assert_filled(region, 0..4 * MIB);
    });
}

/// Goal: a pager can end while a child lives that has its file descriptors.
#[test]
fn a_child_outlives_the_pager() {
    in_subprocess("forks::a_child_outlives_the_pager", || {
        let Some(pager) = pager() else { return };
        let child = fork_idle(IDLE_S).unwrap().number().cast_signed();
        let child = rustix::process::Pid::from_raw(child);
        drop(pager);
        let ended = rustix::process::waitpid(child, WaitOptions::NOHANG).unwrap();
        assert!(ended.is_none(), "it lives for an hour: {ended:?}");
        rustix::process::kill_process(child.unwrap(), Signal::KILL).unwrap();
        rustix::process::waitpid(child, WaitOptions::empty()).unwrap();
    });
}
