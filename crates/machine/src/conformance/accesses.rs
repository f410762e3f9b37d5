//! Test bodies of sources of accesses.
//!
//! A source may see nothing for some time, as samples are taken now and then. So bodies that wait
//! for accesses look several times, and they count looks instead of reading a clock.

use std::collections::BTreeSet;

use nodeward_model::{AccessSample, Accessor, Mapping, Pid, ProcessFilter};

use crate::{
    AccessBatch, AccessSampling, AccessSource, AccessSourceKind, AccessSourceStatus, Error, Machine,
};

/// The input of a test body.
pub struct AccessFixture<'a> {
    /// The machine.
    pub machine: &'a dyn Machine,
    /// A source that works on it.
    pub kind: AccessSourceKind,
    /// A running process of a fixed set of threads, which uses its memory.
    pub pid: Pid,
    /// Another one, until [`AccessFixture::end_other`].
    pub other: Pid,
    /// Lets both use their memory for a moment.
    pub work: &'a dyn Fn(),
    /// Ends the other process.
    pub end_other: &'a dyn Fn(),
}

/// A test body.
pub type AccessTest = fn(&AccessFixture<'_>);

/// All bodies of this module, by name. The last one ends the other process.
pub const ALL: [(&str, AccessTest); 7] = [
    ("a_source_works_or_says_why_not", a_source_works_or_says_why_not),
    ("nothing_is_observed_at_first", nothing_is_observed_at_first),
    ("accesses_are_those_of_the_wanted_process", accesses_are_those_of_the_wanted_process),
    ("several_processes_are_observed_together", several_processes_are_observed_together),
    ("others_are_observed_instead", others_are_observed_instead),
    ("an_empty_list_stops_it", an_empty_list_stops_it),
    ("a_process_that_exits_is_no_error", a_process_that_exits_is_no_error),
];

/// Samples in a second of each CPU.
const RATE_HZ: u32 = 1000;
/// Limit on the looks for what must be seen sooner or later.
const LOOKS_MAX: usize = 1000;

impl AccessFixture<'_> {
    fn open(&self) -> Box<dyn AccessSource> {
        let source = self.machine.open_access_source(self.kind).expect("the source works here");
        assert_eq!(source.kind(), self.kind);
        source
    }

    fn observe(&self, source: &mut dyn AccessSource, pids: &[Pid]) {
        let pids: BTreeSet<Pid> = pids.iter().copied().collect();
        let sampling = AccessSampling { pids: pids.into_iter().collect(), rate_hz: RATE_HZ };
        source.observe(&sampling).expect("the processes can be observed");
    }

    /// Lets processes work, and takes what was seen.
    fn take(&self, source: &mut dyn AccessSource) -> AccessBatch {
        (self.work)();
        source.take().expect("the source goes on")
    }

    /// Takes until accesses of all these processes were seen.
    fn take_until_seen(&self, source: &mut dyn AccessSource, pids: &[Pid]) -> Vec<AccessSample> {
        let mut seen: Vec<AccessSample> = Vec::new();
        for _ in 0..LOOKS_MAX {
            seen.extend(self.take(source).samples);
            if pids.iter().all(|&pid| seen.iter().any(|sample| sample.pid == pid)) {
                return seen;
            }
        }
        panic!("of {pids:?} only these were seen: {seen:?}");
    }
}

/// Each source that the machine names can be opened, or has an obstacle that opening tells, too.
/// What it does not name it does not have.
fn a_source_works_or_says_why_not(stage: &AccessFixture<'_>) {
    let known = stage.machine.access_sources();
    let kinds = [
        AccessSourceKind::Registers,
        AccessSourceKind::SoftDirty,
        AccessSourceKind::Faults,
        AccessSourceKind::Damon,
        AccessSourceKind::Perf,
    ];
    for kind in kinds {
        let status: Vec<_> = known.iter().filter(|status| status.kind == kind).collect();
        let opened = stage.machine.open_access_source(kind);
        match (&status[..], opened) {
            ([AccessSourceStatus { obstacle: None, .. }], Ok(source)) => {
                assert_eq!(source.kind(), kind);
            }
            (
                [] | [AccessSourceStatus { obstacle: Some(_), .. }],
                Err(Error::Unsupported { .. } | Error::Denied { .. }),
            ) => {}
            (status, opened) => panic!("{status:?}, and opened: {:?}", opened.map(|it| it.kind())),
        }
    }
}

/// A source that was only opened sees nothing.
fn nothing_is_observed_at_first(stage: &AccessFixture<'_>) {
    let mut source = stage.open();
    assert_eq!(stage.take(&mut *source).samples, []);
}

/// Accesses are those of the process that is wanted: to its mappings, by its threads, from CPUs and
/// nodes that exist.
fn accesses_are_those_of_the_wanted_process(stage: &AccessFixture<'_>) {
    let mut source = stage.open();
    stage.observe(&mut *source, &[stage.pid]);
    let seen = stage.take_until_seen(&mut *source, &[stage.pid]);
    let process = stage.machine.open_process(stage.pid).expect("the process can be held");
    let mappings = process.mappings().expect("mappings can be read");
    let filter = ProcessFilter { pids: vec![stage.pid], ..ProcessFilter::default() };
    let mut watch = stage.machine.watch(&filter).expect("processes can be watched");
    let snapshot = watch.snapshot().expect("they can be looked at");
    let threads = snapshot.processes.iter().flat_map(|process| &process.threads);
    let tids: BTreeSet<u32> = threads.map(|thread| thread.tid).collect();
    let topology = stage.machine.topology().expect("the machine tells its topology");
    let holds =
        |mapping: &Mapping, address| (mapping.range.start..mapping.range.end).contains(&address);
    for sample in seen {
        assert_eq!(sample.pid, stage.pid);
        assert!(sample.tid.is_none_or(|tid| tids.contains(&tid)), "{sample:?} of {tids:?}");
        let access = sample.access;
        assert!(access.count > 0, "{sample:?}");
        assert!(
            mappings.iter().any(|mapping| holds(mapping, access.address)),
            "{sample:?} is in none of {mappings:?}"
        );
        match access.accessor {
            Accessor::Cpu(cpu) => assert!(topology.cpus.contains(cpu), "{sample:?}"),
            Accessor::Node(node) => assert!(topology.nodes.contains_key(&node), "{sample:?}"),
            Accessor::Unknown => {}
        }
    }
}

/// Several processes are observed at the same time.
fn several_processes_are_observed_together(stage: &AccessFixture<'_>) {
    let mut source = stage.open();
    let pids = [stage.pid, stage.other];
    stage.observe(&mut *source, &pids);
    let seen = stage.take_until_seen(&mut *source, &pids);
    assert!(seen.iter().all(|sample| pids.contains(&sample.pid)), "{seen:?}");
}

/// A list of other processes takes the place of the one before.
fn others_are_observed_instead(stage: &AccessFixture<'_>) {
    let mut source = stage.open();
    stage.observe(&mut *source, &[stage.pid]);
    stage.take_until_seen(&mut *source, &[stage.pid]);
    stage.observe(&mut *source, &[stage.other]);
    source.take().expect("the source goes on"); // what was seen before
    let seen = stage.take_until_seen(&mut *source, &[stage.other]);
    assert!(seen.iter().all(|sample| sample.pid == stage.other), "{seen:?}");
}

/// With an empty list nothing more comes, and what was taken does not come again.
fn an_empty_list_stops_it(stage: &AccessFixture<'_>) {
    let mut source = stage.open();
    stage.observe(&mut *source, &[stage.pid]);
    stage.take_until_seen(&mut *source, &[stage.pid]);
    stage.observe(&mut *source, &[]);
    source.take().expect("the source goes on"); // what was seen before
    let batch = stage.take(&mut *source);
    assert_eq!((batch.samples, batch.without_address), (Vec::new(), 0));
}

/// A process that exits while it is observed, or before, keeps nobody from observing others.
fn a_process_that_exits_is_no_error(stage: &AccessFixture<'_>) {
    let mut source = stage.open();
    stage.observe(&mut *source, &[stage.pid, stage.other]);
    stage.take_until_seen(&mut *source, &[stage.pid, stage.other]);
    (stage.end_other)();
    stage.take(&mut *source);
    stage.take_until_seen(&mut *source, &[stage.pid]);
    stage.observe(&mut *source, &[stage.pid, stage.other]);
    stage.take_until_seen(&mut *source, &[stage.pid]);
    let batch = stage.take(&mut *source);
    assert!(batch.samples.iter().all(|sample| sample.pid == stage.pid), "{batch:?}");
}
