//! Migration by the kernel: move_pages(2) on this process, by several threads. It works everywhere,
//! and it checks plain page references (vmsplice(2), MSG_ZEROCOPY), which userfaultfd does not see.

use std::io;
use std::ops;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nodeward_linux::mempolicy;
use nodeward_machine::{Machine, Process};
use nodeward_model::{NodeId, NodePairs, Nodemask, PageSet, Range, SkipReason, Topology};
use nodeward_mover::{
    Jobs, MoveControl, MoveOrder, MoveReport, MoveRequest, Selection, run_watched,
};
use nodeward_policy::workers;

use crate::chunk::CHUNK_BYTES;
use crate::error::{Error, Result, system};
use crate::migration::{Cancel, Migration, MigrationReport, Progress, Supply};
use crate::region::Placement;
use crate::sys::AnonMapping;

/// Interval of progress reports, and the delay until a cancellation takes effect.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// Moves pages of a process: this one, except in tests.
#[derive(Clone, Copy)]
pub struct KernelBackend<'a> {
    pub machine: &'a dyn Machine,
    pub topology: &'a Topology,
    pub myself: &'a Arc<dyn Process>,
}

impl KernelBackend<'_> {
    /// Moves a range of whole pages to a node. The mover chooses the batch size.
    pub fn migrate(
        &self,
        range: Range,
        to: NodeId,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        self.migrate_selected(Selection { ranges: vec![range], ..Selection::default() }, to, how)
    }

    /// Moves selected memory to a node. Pages that are not in memory are counted where ranges are
    /// selected.
    pub fn migrate_selected(
        &self,
        selection: Selection,
        to: NodeId,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        let order = MoveOrder { pairs: self.pairs(to), pages: None };
        self.run(vec![order], selection, how)
    }

    /// Moves two ranges of whole pages, each to its node, alternately: pages that leave a node make
    /// room for those that arrive.
    pub fn exchange(
        &self,
        one: (Range, NodeId),
        other: (Range, NodeId),
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        let order = |(range, to)| {
            let mut pages = PageSet::new(self.machine.page_bytes());
            pages.insert_range(range);
            MoveOrder { pairs: self.pairs(to), pages: Some(pages) }
        };
        let selection = Selection { ranges: vec![one.0, other.0], ..Selection::default() };
        self.run(vec![order(one), order(other)], selection, how)
    }

    fn run(
        &self,
        orders: Vec<MoveOrder>,
        selection: Selection,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        check_supported(how)?;
        let to = orders.iter().flat_map(|order| order.pairs.iter()).map(|(_, to)| to).collect();
        self.check_nodes(&to)?;
        let bytes = selection.ranges.iter().map(|range| range.bytes()).sum();
        let ns = |stall: Duration| u64::try_from(stall.as_nanos()).unwrap_or(u64::MAX);
        let request = MoveRequest {
            orders: vec![orders.into()],
            selection,
            jobs: how.lanes.map_or(Jobs::Auto, Jobs::Fixed),
            cpus: workers::worker_cpus(self.topology, &to, &self.machine.usable_cpus()?),
            rate_bytes_per_s: how.budget.bytes_per_s,
            stall_ns: how.budget.stall.map(ns),
            split_huge: false,
        };
        let moved = self.run_with_progress(&request, &MoveControl::default(), bytes, how)?;
        Ok(self.report(&moved, bytes))
    }

    fn check_nodes(&self, to: &Nodemask) -> Result<()> {
        let missing = to.without(&self.topology.nodes_with_memory()).iter().next();
        missing.map_or(Ok(()), |node| Err(Error::UnknownNode { node }))
    }

    /// Returns the pairs from every other node to `to`. On a machine with one node, a source that
    /// does not exist makes pages count as already there.
    fn pairs(&self, to: NodeId) -> NodePairs {
        let elsewhere = self.topology.nodes_with_memory().without(&Nodemask::from_iter([to]));
        let mut from: Vec<NodeId> = elsewhere.iter().collect();
        if from.is_empty() {
            from.push(NodeId(u32::from(to == NodeId(0))));
        }
        NodePairs::from_lists(&from, &[to])
    }

    /// Runs the mover on threads of its own, because workers set their CPU affinity, which on the
    /// calling thread belongs to the caller.
    fn run_with_progress(
        &self,
        request: &MoveRequest,
        live: &MoveControl,
        bytes: u64,
        how: &Migration<'_>,
    ) -> Result<MoveReport> {
        let processes = [Arc::clone(self.myself)];
        let work = || nodeward_mover::migrate(self.machine, &processes, request, live, None);
        let look = || {
            forward_cancel(how, live);
            report_progress(how, live, bytes);
        };
        forward_cancel(how, live);
        let done = run_watched("nodeward-kernel", PROGRESS_INTERVAL, look, work);
        let done = done.map_err(system("clone(2)"))?;
        report_progress(how, live, bytes);
        Ok(done?)
    }

    fn report(&self, moved: &MoveReport, bytes: u64) -> MigrationReport {
        if let Some(error) = &moved.error {
            tracing::debug!(%error, "some pages stayed behind");
        }
        let mut account = moved.account();
        // The mover does not count pages that were never there.
        let pages = bytes / self.machine.page_bytes();
        account.skip(SkipReason::NotPresent, pages.saturating_sub(account.selected()));
        MigrationReport {
            one_way_pages: account.moved,
            by_kernel_pages: account.moved,
            lanes: moved.workers,
            took_ns: moved.moving_ns + moved.verifying_ns,
            longest_hold_ns: moved.longest_hold_ns.unwrap_or(0),
            cancelled: moved.stopped.is_some(),
            account,
            ..MigrationReport::default()
        }
    }
}

/// Brings missing pages into memory, on a thread of its own because the memory policy is per
/// thread. Parts that the program has write-protected are left out.
pub fn commit(
    mapping: &AnonMapping,
    range: ops::Range<usize>,
    placement: &Placement,
) -> io::Result<()> {
    let populate = |part: ops::Range<usize>, node: Option<NodeId>| {
        node.map_or(Ok(()), mempolicy::prefer_memory)?;
        populate_writable(mapping, part)
    };
    let by_chunk = || {
        let chunks = range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES);
        for chunk in chunks {
            let start = (chunk * CHUNK_BYTES).max(range.start);
            let end = ((chunk + 1) * CHUNK_BYTES).min(range.end);
            populate(start..end, placement.node_of_chunk(chunk))?;
        }
        Ok(())
    };
    match placement {
        Placement::Local => populate_writable(mapping, range),
        _ => thread::scope(|scope| scope.spawn(by_chunk).join().expect("does not panic")),
    }
}

/// Halves a part that the kernel refuses, down to single pages, which are then left out.
fn populate_writable(mapping: &AnonMapping, part: ops::Range<usize>) -> io::Result<()> {
    let page_bytes = rustix::param::page_size();
    match mapping.populate(part.clone()) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let pages = part.len() / page_bytes;
            if pages <= 1 {
                return Ok(());
            }
            let middle = part.start + pages / 2 * page_bytes;
            populate_writable(mapping, part.start..middle)?;
            populate_writable(mapping, middle..part.end)
        }
        done => done,
    }
}

fn check_supported(how: &Migration<'_>) -> Result<()> {
    let (what, fix) = if how.even_if_there {
        ("the kernel does not move pages that are there", "leave `even_if_there` out")
    } else if how.supply == Supply::Recycled {
        ("the kernel does not keep pages for later moves", "choose another supply")
    } else {
        return Ok(());
    };
    Err(Error::BadOption { problem: what.to_owned(), remedy: fix.to_owned() })
}

fn forward_cancel(how: &Migration<'_>, live: &MoveControl) {
    if how.cancel.is_some_and(Cancel::is_cancelled) {
        live.stop();
    }
}

/// Reports progress of a move of ranges, or of all memory. Parts that hold no pages count as done
/// as soon as the others are known.
fn report_progress(how: &Migration<'_>, live: &MoveControl, range_bytes: u64) {
    let Some(progress) = how.progress else { return };
    let total_bytes = range_bytes.max(live.total_bytes());
    let empty_bytes = match live.total_bytes() {
        0 => 0,
        known => total_bytes - known,
    };
    let examined_bytes = total_bytes.min(empty_bytes + live.examined_bytes());
    progress(Progress { examined_bytes, total_bytes });
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::atomic::Ordering::Relaxed;

    use nodeward_linux::Linux;
    use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{Page, Pid};

    use super::*;
    use crate::migration::Budget;
    use crate::region::count_by_node;

    const PAGE: u64 = 4096;

    fn on(node: u32) -> Page {
        Page::on(NodeId(node))
    }

    /// A machine and a process.
    struct KernelFixture<M> {
        machine: M,
        topology: Topology,
        myself: Arc<dyn Process>,
        range: Range,
    }

    impl<M: Machine> KernelFixture<M> {
        fn of(machine: M, pid: Pid, range: Range) -> Self {
            let (topology, myself) =
                (machine.topology().unwrap(), machine.open_process(pid).unwrap());
            Self { machine, topology, myself, range }
        }

        fn migrate(
            &self,
            range: Range,
            to: NodeId,
            how: &Migration<'_>,
        ) -> Result<MigrationReport> {
            let (machine, topology, myself) = (&self.machine, &self.topology, &self.myself);
            KernelBackend { machine, topology, myself }.migrate(range, to, how)
        }

        fn residency(&self) -> BTreeMap<NodeId, u64> {
            count_by_node(&*self.myself, self.range, self.machine.page_bytes()).unwrap()
        }
    }

    /// A process of the fake machine: 3000 pages on node 0, 1000 on node 1, 96 absent.
    fn fixture(change: impl FnOnce(FakeProcess) -> FakeProcess) -> KernelFixture<FakeMachine> {
        let pages = [vec![on(0); 3000], vec![on(1); 1000], vec![Page::ABSENT; 96]].concat();
        let fake_process = change(FakeProcess::with_pages(&pages));
        let (machine, pid, range) =
            (FakeMachine::new(false), Pid::new(7).unwrap(), fake_process.mappings[0].range);
        machine.spawn(pid, fake_process);
        KernelFixture::of(machine, pid, range)
    }

    /// Goal: each page of the range is accounted for once, with its outcome, and residency agrees.
    #[test]
    fn every_page_is_accounted_for() {
        let world = fixture(|fake_process| fake_process);
        let before: BTreeMap<_, _> = [(NodeId(0), 3000), (NodeId(1), 1000)].into();
        assert_eq!(world.residency(), before);
        let how = Migration { lanes: Some(2), ..Migration::default() };
        let report = world.migrate(world.range, NodeId(1), &how).unwrap();
        assert_eq!((report.account.moved, report.account.already_there), (3000, 1000));
        assert_eq!(report.account.skipped, [(SkipReason::NotPresent, 96)].into());
        assert_eq!((report.one_way_pages, report.recycled_pages), (3000, 0));
        assert!(!report.cancelled && (1..=2).contains(&report.lanes), "{report:?}");
        assert_eq!(world.residency(), [(NodeId(1), 4000)].into());
    }

    /// Goal: only the named range moves.
    #[test]
    fn a_part_moves_alone() {
        let world = fixture(|fake_process| fake_process);
        let part = Range::new(world.range.start + 100 * PAGE, world.range.start + 300 * PAGE);
        let report = world.migrate(part, NodeId(1), &Migration::default()).unwrap();
        assert_eq!((report.account.moved, report.account.selected()), (200, 200));
        let after = [(NodeId(0), 2800), (NodeId(1), 1200)].into();
        assert_eq!(world.residency(), after);
    }

    /// Goal: a node that fills up half-way is a reason in the report, not an error.
    #[test]
    fn a_full_node_is_a_reason() {
        let world = fixture(|fake_process| FakeProcess {
            free_pages: [(NodeId(1), 500)].into(),
            ..fake_process
        });
        let report = world.migrate(world.range, NodeId(1), &Migration::default()).unwrap();
        assert_eq!(report.account.moved, 500);
        assert_eq!(report.account.skipped_for(SkipReason::NoMemory), 2500);
        assert_eq!(report.account.selected(), 4096);
    }

    /// Goal: two ranges change places though each node has room for only 100 more pages, and pages
    /// between the ranges stay.
    #[test]
    fn full_nodes_exchange() {
        let free = [(NodeId(0), 100), (NodeId(1), 100)].into();
        let world = fixture(|fake_process| FakeProcess { free_pages: free, ..fake_process });
        let pages = |first: u64, last: u64| {
            Range::new(world.range.start + first * PAGE, world.range.start + last * PAGE)
        };
        // Pages 0 to 2999 are on node 0, 3000 to 3999 on node 1, the rest is absent.
        let (one, other) = (pages(0, 1000), pages(3050, 4050));
        let (machine, topology, myself) = (&world.machine, &world.topology, &world.myself);
        let kernel = KernelBackend { machine, topology, myself };
        let how = Migration::default();
        let report = kernel.exchange((one, NodeId(1)), (other, NodeId(0)), &how).unwrap();
        assert_eq!((report.account.moved, report.account.selected()), (1000 + 950, 2000));
        assert_eq!(report.account.skipped, [(SkipReason::NotPresent, 50)].into());
        let at = |range| count_by_node(&**myself, range, PAGE).unwrap();
        assert_eq!(at(one), [(NodeId(1), 1000)].into());
        assert_eq!(at(other), [(NodeId(0), 950)].into());
        assert_eq!(at(pages(1000, 3050)), [(NodeId(0), 2000), (NodeId(1), 50)].into());
    }

    /// Goal: a cancelled migration leaves the remaining pages where they are, and reports it.
    #[test]
    fn it_can_be_cancelled() {
        let world = fixture(|fake_process| fake_process);
        let cancel = Cancel::new();
        cancel.cancel();
        let how = Migration { cancel: Some(&cancel), ..Migration::default() };
        let report = world.migrate(world.range, NodeId(1), &how).unwrap();
        assert!(report.cancelled);
        assert_eq!((report.account.moved, report.account.selected()), (0, 4096));
        assert_eq!(report.account.skipped_for(SkipReason::Interrupted), 3000);
    }

    /// Goal: progress is reported on the calling thread, never decreases, and ends with all bytes.
    #[test]
    fn progress_ends_with_all() {
        let world = fixture(|fake_process| fake_process);
        let (caller, told) = (thread::current().id(), RefCell::new(Vec::new()));
        let progress = |progress: Progress| {
            assert_eq!(thread::current().id(), caller);
            told.borrow_mut().push(progress);
        };
        let how = Migration { progress: Some(&progress), ..Migration::default() };
        world.migrate(world.range, NodeId(1), &how).unwrap();
        let told = told.into_inner();
        assert!(told.is_sorted_by_key(|progress| progress.examined_bytes), "{told:?}");
        let all = 4096 * PAGE;
        assert_eq!(told.last(), Some(&Progress { examined_bytes: all, total_bytes: all }));
    }

    /// Goal: the rate is kept, by the clock of the fake machine: 3000 pages at 1000 pages a second.
    #[test]
    fn the_rate_is_kept() {
        let world = fixture(|fake_process| fake_process);
        let budget = Budget { bytes_per_s: Some(1000 * PAGE), stall: None };
        let how = Migration { budget, lanes: Some(1), ..Migration::default() };
        let report = world.migrate(world.range, NodeId(1), &how).unwrap();
        // The last batch need not be waited for; none is larger than half a second's worth.
        assert!(report.took_ns >= 2_000_000_000, "{report:?}");
        assert!(world.machine.now_ns() >= report.took_ns);
    }

    /// Goal: options that the kernel cannot honour are refused before anything moves.
    #[test]
    fn impossible_wishes_are_refused() {
        let world = fixture(|fake_process| fake_process);
        let refused = |to, how: &Migration<'_>| world.migrate(world.range, to, how).unwrap_err();
        let error = refused(NodeId(77), &Migration::default());
        assert!(matches!(error, Error::UnknownNode { node: NodeId(77) }), "{error}");
        let measure = Migration { even_if_there: true, ..Migration::default() };
        assert!(refused(NodeId(1), &measure).to_string().contains("leave `even_if_there` out"));
        let recycled = Migration { supply: Supply::Recycled, ..Migration::default() };
        assert!(refused(NodeId(1), &recycled).to_string().contains("another supply"));
        assert_eq!(world.residency()[&NodeId(0)], 3000);
    }

    /// Goal: on this kernel, our own pages move to each node in turn and keep their content. On the
    /// first node, or the only one, they are there already.
    #[test]
    fn our_own_pages_move_here() {
        let page = rustix::param::page_size();
        let area = MappedArea::map(64 * page, AreaBacking::Anonymous).unwrap();
        area.advise(AreaAdvice::BasePages).unwrap();
        let words = || area.words()[..40 * page / 8].iter().step_by(page / 8);
        words().for_each(|word| word.store(5, Relaxed));
        let range = Range::new(area.address(), area.address() + area.bytes() as u64);
        let world = KernelFixture::of(Linux::open(), Pid::of_this_process(), range);
        assert_eq!(world.residency().values().sum::<u64>(), 40);
        let allowed =
            nodeward_linux::nodes::nodestring_context(Path::new("/"), &world.topology).unwrap();
        for node in allowed.allowed.and(&world.topology.nodes_with_memory()).iter() {
            let there = world.residency().get(&node).copied().unwrap_or(0);
            let report = world.migrate(range, node, &Migration::default()).unwrap();
            assert_eq!((report.account.moved, report.account.already_there), (40 - there, there));
            assert_eq!(report.account.skipped, [(SkipReason::NotPresent, 24)].into());
            assert_eq!(world.residency(), [(node, 40)].into());
            assert!(words().all(|word| word.load(Relaxed) == 5));
        }
    }
}
