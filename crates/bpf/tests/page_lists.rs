//! Counts the depths of this machine's CPUs, where that is permitted, and replays the same events
//! by the rule of the tuner.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use aya::maps::{PerCpuArray, RingBuf};
use nodeward_bpf::ProgramSet;
use nodeward_bpf::page_lists::{
    DepthCounter, ListOrders, PROBES, PeriodCounts, begin_period, counted,
};
use nodeward_policy::pcp::DepthPeriod;

use permission::loaded;

mod permission;

const RECORDED: &[u8] = aya::include_bytes_aligned!("../objects/page_lists_recorded.o");
const ORDERS: ListOrders = ListOrders { largest: 3, huge: Some(9) };
const BYTES: usize = 4 << 20;

/// Has the kernel allocate pages, one by one, and free all of them: those of a file in memory.
fn swing(bytes: usize) {
    let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.write_all(&vec![1; bytes]).unwrap();
}

/// An event, as `struct event` of the program has it.
struct RecordedEvent {
    period: u64,
    cpu: usize,
    kind: u32,
    order: u32,
}

impl RecordedEvent {
    fn read(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let period = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
        Self { period, cpu: word(8) as usize, kind: word(12), order: word(16) }
    }
}

/// The rule, applied to events in the order in which their CPU recorded them.
#[derive(Default)]
struct Replay {
    depths: DepthPeriod,
    allocated: u64,
    freed: u64,
    refills: u64,
    drains: u64,
}

// The kinds of events, in the order of `enum kind` of the program.
const ALLOC: u32 = 0;
const FREE: u32 = 1;
const BATCHED: u32 = 2;
const REFILL: u32 = 3;
const DRAIN: u32 = 4;

impl Replay {
    /// Takes an event; `last` is the kind of the CPU's event before, also in an earlier period.
    fn take(&mut self, event: &RecordedEvent, last: u32) {
        let pages = 1_u32 << event.order;
        match event.kind {
            ALLOC => {
                self.depths.allocated(pages);
                self.allocated += u64::from(pages);
            }
            FREE => {
                self.depths.freed(pages);
                self.freed += u64::from(pages);
            }
            BATCHED => {}
            REFILL => self.refills += u64::from(last != REFILL),
            DRAIN => self.drains += u64::from(last != DRAIN),
            kind => panic!("kind {kind}"),
        }
    }

    fn counts(&self) -> PeriodCounts {
        PeriodCounts {
            balance: self.depths.balance,
            highest: self.depths.highest,
            lowest: self.depths.lowest,
            alloc_depth: self.depths.alloc_depth,
            free_depth: self.depths.free_depth,
            allocated: self.allocated,
            freed: self.freed,
            refills: self.refills,
            drains: self.drains,
        }
    }
}

/// Replays all events; returns what each CPU did in a period.
fn replay(events: &[RecordedEvent], period: u64) -> BTreeMap<usize, PeriodCounts> {
    let mut replays = BTreeMap::<usize, Replay>::new();
    let mut last = BTreeMap::new();
    for event in events {
        let last = last.insert(event.cpu, event.kind).unwrap_or(ALLOC);
        if event.period == period {
            replays.entry(event.cpu).or_default().take(event, last);
        }
    }
    replays.into_iter().map(|(cpu, replay)| (cpu, replay.counts())).collect()
}

fn recorded(programs: &mut ProgramSet) -> Vec<RecordedEvent> {
    let mut ring = RingBuf::try_from(programs.map_mut("events")).unwrap();
    let mut events = Vec::new();
    while let Some(bytes) = ring.next() {
        events.push(RecordedEvent::read(&bytes));
    }
    events
}

fn unrecorded(programs: &ProgramSet) -> u64 {
    let cpus = PerCpuArray::<_, [u64; 24]>::try_from(programs.map("cpus")).unwrap();
    cpus.get(&0, 0).unwrap().iter().map(|cpu| cpu[2]).sum()
}

/// Goal: depths, pages and visits that the kernel counted are exactly those of the rule of 2023,
/// applied to the recorded events of the same time. On a machine that is too busy to record all
/// events a time is tried again.
#[test]
fn counted_depths_are_those_of_the_rule() {
    for attempt in 1..=20 {
        let set = ProgramSet::load(RECORDED, PROBES, &ORDERS.constants(), Path::new("/"));
        let Some(mut programs) = loaded(set) else { return };
        begin_period(&mut programs, 1).unwrap();
        (0..4).for_each(|_| swing(BYTES));
        begin_period(&mut programs, 2).unwrap();
        // A program that has just read the number of the old period comes to its end meanwhile.
        thread::sleep(Duration::from_millis(20));
        let counted = counted(&programs, 1).unwrap();
        let events = recorded(&mut programs);
        if unrecorded(&programs) > 0 {
            eprintln!("attempt {attempt}: more events than can be kept");
            continue;
        }
        let expected = replay(&events, 1);
        for (cpu, counts) in counted.cpus.iter().enumerate() {
            assert_eq!(*counts, expected.get(&cpu).copied().unwrap_or_default(), "CPU {cpu}");
        }
        let allocated: u64 = counted.cpus.iter().map(|cpu| cpu.allocated).sum();
        // Four times 1024 pages of 4 KiB, or fewer where pages are larger.
        let pages = (4 * BYTES / rustix::param::page_size()) as u64;
        assert!(allocated >= pages, "{allocated} of {pages}");
        let depth = counted.cpus.iter().map(|cpu| cpu.alloc_depth.min(cpu.free_depth)).max();
        assert!(depth > Some(0), "{counted:?}");
        return;
    }
    panic!("no attempt could record all events");
}

/// Goal: each period begins with nothing, and has what was done in it: 16 MiB are a depth of 4096
/// pages in one direction at least, on one CPU or several.
#[test]
fn periods_are_counted_apart() {
    let Some(mut counter) = loaded(DepthCounter::start(Path::new("/"), ORDERS)) else { return };
    assert!(counter.missing().is_none(), "{:?}", counter.missing());
    assert!(counter.is_usable());
    let pages = (16 << 20) / rustix::param::page_size() as u64;
    for _ in 0..3 {
        counter.end_period().unwrap();
        swing(16 << 20);
        let counted = counter.end_period().unwrap();
        let sum = |of: fn(&PeriodCounts) -> u64| counted.cpus.iter().map(of).sum::<u64>();
        assert!(sum(|cpu| cpu.allocated) >= pages && sum(|cpu| cpu.freed) >= pages, "{counted:?}");
        for cpu in &counted.cpus {
            let moved = i64::try_from(cpu.allocated).unwrap() - i64::try_from(cpu.freed).unwrap();
            assert_eq!(cpu.balance, moved, "{cpu:?}");
            assert!(cpu.alloc_depth <= i64::try_from(cpu.allocated).unwrap(), "{cpu:?}");
        }
    }
}
