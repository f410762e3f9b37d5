//! Replays traces of allocations and frees on the tuners: counts how often the zone's lock is
//! taken, and how much memory the lists hold. The lists are counters, the zone is unlimited.
//!
//! docs/explanation/page-pool.md has the table; the test that compares it prints the expected
//! table.

use nodeward_policy::pcp::{AnyTuner, ListLimits, PERIOD_MS, Tuner, TunerKind};
use nodeward_policy::sampling::SplitMix64;

/// The limits of a machine with 4 GiB per node and two CPUs: high_max is 2^20 pages / 8 / 2.
const LIMITS: ListLimits = ListLimits { batch: 63, high_default: 378, high_max: 65_536 };
/// Allocating a page includes touching it: 3 us together, as page_fault1 takes outside of the lock.
const ALLOCATE_NS: u64 = 2500;
const FREE_NS: u64 = 500;
const MS: u64 = 1_000_000;
const START_NS: u64 = 5_000_000 * MS;
/// 128 MiB, which each process of page_fault1 allocates and frees again and again.
const PASS_PAGES: u32 = 32_768;

/// One CPU's list.
struct ReplayList {
    tuner: AnyTuner,
    count: u32,
}

/// Two CPUs with their lists in front of one zone.
struct Replay {
    lists: [ReplayList; 2],
    /// Base pages of a run; all runs have the same length.
    run: u32,
    now_ns: u64,
    tick_ns: u64,
    in_use: u32,
    statistics: ReplayStatistics,
}

/// Counts since the last query.
#[derive(Clone, Copy, Debug, Default)]
struct ReplayStatistics {
    visits: u64,
    allocated: u64,
    elapsed_ns: u64,
    listed_ns: u64,
    listed_peak: u32,
    held_peak: u32,
    in_use_peak: u32,
}

impl ReplayStatistics {
    fn visits_per_million(&self) -> u64 {
        self.visits * 1_000_000 / self.allocated
    }

    fn listed_mean(&self) -> u64 {
        self.listed_ns / self.elapsed_ns
    }

    fn held_percent(&self) -> u64 {
        u64::from(self.held_peak) * 100 / u64::from(self.in_use_peak)
    }
}

impl Replay {
    fn new(tuning: TunerKind) -> Self {
        Self::of_runs(tuning, 1)
    }

    fn of_runs(tuning: TunerKind, run: u32) -> Self {
        let list = || ReplayList { tuner: tuning.tuner(&LIMITS), count: 0 };
        Self {
            lists: [list(), list()],
            run,
            now_ns: START_NS,
            tick_ns: START_NS + PERIOD_MS * MS,
            in_use: 0,
            statistics: ReplayStatistics::default(),
        }
    }

    fn allocate(&mut self, cpu: usize, pages: u32) {
        (0..pages / self.run).for_each(|_| self.allocate_run(cpu));
    }

    fn free(&mut self, cpu: usize, pages: u32) {
        (0..pages / self.run).for_each(|_| self.free_run(cpu));
    }

    fn allocate_run(&mut self, cpu: usize) {
        let list = &mut self.lists[cpu];
        list.tuner.allocated(self.run);
        if list.count == 0 {
            list.count += list.tuner.refill(&LIMITS, 0).next_multiple_of(self.run);
            self.statistics.visits += 1;
        }
        list.count -= self.run;
        self.in_use += self.run;
        self.statistics.allocated += u64::from(self.run);
        self.wait(ALLOCATE_NS * u64::from(self.run));
    }

    fn free_run(&mut self, cpu: usize) {
        let list = &mut self.lists[cpu];
        list.count += self.run;
        self.in_use -= self.run;
        let given = list.tuner.freed(&LIMITS, self.run, list.count, self.now_ns / MS);
        self.give_back(cpu, given);
        self.wait(FREE_NS * u64::from(self.run));
    }

    fn give_back(&mut self, cpu: usize, pages: u32) {
        self.lists[cpu].count -= pages.next_multiple_of(self.run);
        self.statistics.visits += u64::from(pages > 0);
    }

    /// Advances the time, with its ticks.
    fn wait(&mut self, ns: u64) {
        let until_ns = self.now_ns + ns;
        while self.tick_ns <= until_ns {
            self.pass(self.tick_ns);
            for cpu in 0..self.lists.len() {
                let ReplayList { tuner, count } = &mut self.lists[cpu];
                let given = tuner.tick(&LIMITS, *count, self.now_ns / MS);
                self.give_back(cpu, given);
            }
            self.tick_ns += PERIOD_MS * MS;
        }
        self.pass(until_ns);
    }

    fn pass(&mut self, until_ns: u64) {
        let listed = self.lists.iter().map(|list| list.count).sum();
        let elapsed_ns = until_ns - self.now_ns;
        let seen = &mut self.statistics;
        seen.elapsed_ns += elapsed_ns;
        seen.listed_ns += elapsed_ns * u64::from(listed);
        seen.listed_peak = seen.listed_peak.max(listed);
        seen.in_use_peak = seen.in_use_peak.max(self.in_use);
        seen.held_peak = seen.held_peak.max(self.in_use + listed);
        self.now_ns = until_ns;
    }

    fn seconds(&self) -> u64 {
        (self.now_ns - START_NS) / (1000 * MS)
    }

    fn high(&self, cpu: usize) -> u32 {
        self.lists[cpu].tuner.high(&LIMITS)
    }

    /// Returns the counts since the last call.
    fn take_statistics(&mut self) -> ReplayStatistics {
        std::mem::take(&mut self.statistics)
    }

    /// Runs one pass of page_fault1.
    fn pass_of_page_fault1(&mut self) -> ReplayStatistics {
        self.take_statistics();
        self.allocate(0, PASS_PAGES);
        self.free(0, PASS_PAGES);
        self.statistics
    }
}

/// Allocates and frees 128 MiB without end; a pass takes 98 ms. The first 9 s hold eight periods.
fn page_fault1_first(tuning: TunerKind) -> ReplayStatistics {
    let mut replay = Replay::new(tuning);
    page_fault1(&mut replay, 9);
    replay.take_statistics()
}

fn page_fault1_later(tuning: TunerKind) -> ReplayStatistics {
    from_the_tenth_second(Replay::new(tuning))
}

fn page_fault1_huge(tuning: TunerKind) -> ReplayStatistics {
    from_the_tenth_second(Replay::of_runs(tuning, 512))
}

fn from_the_tenth_second(mut replay: Replay) -> ReplayStatistics {
    page_fault1(&mut replay, 9);
    replay.take_statistics();
    page_fault1(&mut replay, 20);
    replay.take_statistics()
}

fn page_fault1(replay: &mut Replay, until_s: u64) {
    while replay.seconds() < until_s {
        replay.allocate(0, PASS_PAGES);
        replay.free(0, PASS_PAGES);
    }
}

/// Short processes, as of a compiler, one after the other on either CPU: 256 to 16384 pages, small
/// ones more often, a quarter freed and allocated again on the way, and a pause after each that is
/// at most as long as the process allocated.
fn churn(tuning: TunerKind) -> ReplayStatistics {
    let mut replay = Replay::new(tuning);
    let mut stream = SplitMix64::new(1);
    while replay.seconds() < 30 {
        let cpu = usize::try_from(stream.next_u64() % 2).unwrap();
        let least = 256 << (stream.next_u64() % 6);
        let pages = u32::try_from(least + stream.next_u64() % least).unwrap();
        replay.allocate(cpu, pages);
        replay.free(cpu, pages / 4);
        replay.allocate(cpu, pages / 4);
        replay.free(cpu, pages);
        replay.wait(stream.next_u64() % (u64::from(pages) * ALLOCATE_NS));
    }
    replay.take_statistics()
}

/// CPU 0 only allocates, CPU 1 only frees, 1024 pages at a time.
fn pipe(replay: &mut Replay, seconds: u64) {
    while replay.seconds() < seconds {
        replay.allocate(0, 1024);
        replay.free(1, 1024);
    }
}

fn producer_and_consumer(tuning: TunerKind) -> ReplayStatistics {
    let mut replay = Replay::new(tuning);
    pipe(&mut replay, 10);
    replay.take_statistics()
}

/// 2048 packets come every 20 ms and are freed when they are sent; every third second is quiet.
fn packets(tuning: TunerKind) -> ReplayStatistics {
    let mut replay = Replay::new(tuning);
    while replay.seconds() < 30 {
        if replay.seconds() % 3 < 2 {
            replay.allocate(0, 2048);
            replay.free(0, 2048);
        }
        replay.wait(14 * MS);
    }
    replay.take_statistics()
}

/// 1 GiB is allocated, used for 2 s and freed. Then nothing happens for 10 s.
fn once(tuning: TunerKind) -> ReplayStatistics {
    let mut replay = Replay::new(tuning);
    replay.allocate(0, 1 << 18);
    replay.wait(2000 * MS);
    replay.free(0, 1 << 18);
    replay.wait(10_000 * MS);
    replay.take_statistics()
}

type ReplayTrace = fn(TunerKind) -> ReplayStatistics;

const TRACES: &[(&str, ReplayTrace)] = &[
    ("page_fault1, the first 9 s", page_fault1_first),
    ("page_fault1, from then on", page_fault1_later),
    ("the same in runs of order 9", page_fault1_huge),
    ("short processes, on either CPU", churn),
    ("one CPU allocates, one frees", producer_and_consumer),
    ("bursts of packets", packets),
    ("1 GiB for once, then idle", once),
];

fn table() -> String {
    let mut table = String::from(
        "| trace | tuner | visits to the zone per million pages | pages in lists, mean | at most \
         | peak held / peak in use |\n|---|---|---|---|---|---|\n",
    );
    for (name, trace) in TRACES {
        for tuning in TunerKind::ALL {
            let seen = trace(tuning);
            table += &format!(
                "| {name} | {} | {} | {} | {} | {} % |\n",
                tuning.name(),
                seen.visits_per_million(),
                seen.listed_mean(),
                seen.listed_peak,
                seen.held_percent(),
            );
        }
    }
    table
}

/// Goal: the table of the documentation is the result here, so a change of any tuner shows there.
#[test]
fn the_documentation_has_the_table() {
    let table = table();
    let page = include_str!("../../../docs/explanation/page-pool.md");
    let name = "docs/explanation/page-pool.md";
    assert!(page.contains(&table), "{name} should have this table:\n\n{table}");
}

/// Visits of one pass of page_fault1 with lists that do not grow, from the second pass on: back go
/// 63 + 126 + 252 + 102 * 315 pages in 105 visits, and these 32571 come again in 517 of 63.
const FIXED_PASS_VISITS: u64 = 105 + 517;

#[test]
fn a_pass_costs_a_fixed_list_as_much_each_time() {
    let mut replay = Replay::new(TunerKind::Fixed);
    replay.pass_of_page_fault1();
    let visits = [(); 3].map(|()| replay.pass_of_page_fault1().visits);
    assert_eq!(visits, [FIXED_PASS_VISITS; 3]);
}

/// Goal: after k periods 32768 / 2^k pages find no room. The list gives back 63, 126, 252, ...
/// while more come, n times until that is more than those: then 63 * (2^n - 1) are gone, which come
/// again in 2^n - 1 visits. So a pass costs n + 2^n - 1 visits with n = 9, 8, ..., 2.
#[test]
fn a_pass_costs_depth_half_as_much_with_each_period() {
    let mut replay = Replay::new(TunerKind::Depth);
    let mut costs = Vec::new();
    while costs.len() < 8 {
        let before = replay.high(0);
        replay.pass_of_page_fault1();
        if replay.high(0) > before {
            costs.push(replay.pass_of_page_fault1().visits);
        }
    }
    assert_eq!(costs, [520, 263, 134, 69, 36, 19, 10, 5]);
    // 622 / 36 = 17 after five periods, 622 / 10 = 62 after seven, 622 / 5 = 124 after eight.
    assert!(costs[7] * 50 <= FIXED_PASS_VISITS);
}

/// Goal: in runs of 512 pages a list of 378 keeps nothing: 64 runs come and go one by one. With
/// 32640 or more there is room for 63 of them, so the last one goes, and comes again, in each pass.
#[test]
fn a_pass_in_long_runs_costs_depth_two_visits() {
    let visits = [TunerKind::Fixed, TunerKind::Depth].map(|tuning| {
        let mut replay = Replay::of_runs(tuning, 512);
        page_fault1(&mut replay, 9);
        replay.pass_of_page_fault1().visits
    });
    assert_eq!(visits, [64 + 64, 2]);
}

#[test]
fn events_knows_after_one_pass() {
    let mut replay = Replay::new(TunerKind::Events);
    assert_eq!(replay.pass_of_page_fault1().visits, 21); // 63, 126, ... 1008, then 16 * 2016
    // The next pass has no tick and costs nothing. Later ones pay for the pages that ticks took
    // away.
    assert_eq!(replay.pass_of_page_fault1().visits, 0);
    let later: u64 = (0..100).map(|_| replay.pass_of_page_fault1().visits).sum();
    assert!(later * 50 <= 100 * FIXED_PASS_VISITS, "{later} visits in 100 passes");
}

#[test]
fn page_fault1_holds_little_more_than_it_uses() {
    for tuning in TunerKind::ALL {
        let seen = page_fault1_first(tuning);
        assert!(seen.held_percent() <= 120, "{tuning:?}: {} %", seen.held_percent());
    }
}

/// Goal: the RFC's tuner gives no room to CPUs that only allocate or only free. That of Linux 6.7
/// gives nearly all to the one that allocates, as its documentation says.
#[test]
fn a_list_does_nothing_for_producers_and_consumers() {
    let mut depth = Replay::new(TunerKind::Depth);
    let mut events = Replay::new(TunerKind::Events);
    for second in 1..10 {
        pipe(&mut depth, second);
        assert_eq!([depth.high(0), depth.high(1)], [LIMITS.high_default; 2]);
        pipe(&mut events, second);
    }
    // The tick at the end of the last second has just taken an eighth.
    assert_eq!(events.high(0), LIMITS.high_max / 8 * 7);
}

#[test]
fn lists_are_at_the_default_after_four_idle_periods() {
    for tuning in TunerKind::ALL {
        let mut replay = Replay::new(tuning);
        page_fault1(&mut replay, 9);
        replay.wait(4 * PERIOD_MS * MS);
        assert_eq!(replay.high(0), LIMITS.high_default, "{tuning:?}");
        assert!(replay.lists[0].count <= LIMITS.high_default, "{tuning:?}");
    }
}
