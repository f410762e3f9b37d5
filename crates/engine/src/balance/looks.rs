//! Dear looks: where the memory of a process is, and what its program told the kernel about that.

use std::collections::BTreeMap;

use nodeward_machine::{Error, Machine, Process, Result};
use nodeward_model::{Bound, Mapping, MappingKind, NodeId, Pid, Range};

use super::ground::Ground;
use super::meter;
use super::observe::busiest;
use super::roster::{Key, Member, Sight};
use super::settings::BalanceSettings;
use crate::residency::{self, Options};

/// CPU time for one look: at first what all looks may cost in so many seconds while processes are
/// brought home (100 ms by default), and up to so many times that, after each one that it cut short
/// twice as much. What is seen in the time at most is taken for the whole.
const LOOK_SECONDS: u64 = 5;
const LOOK_FACTOR_MAX: u64 = 16;
/// Beside busy programs, or at a process that is slow to answer, a look may take so many times as
/// long as it works.
const LOOK_WAITS: u64 = 10;
/// Between two looks of which nothing came, at first and at most, in nanoseconds.
const WAIT_NS: [u64; 2] = [1_000_000_000, 60_000_000_000];
/// For so long what the program told the kernel is taken to hold for the memory that it had.
const BOUND_NS: u64 = 60_000_000_000;
/// Growth by less than this is none, in bytes.
const GROWN_BYTES: u64 = 1 << 20;
/// A share that changed by less is the same, in ppm.
const SAME_PPM: u64 = 50_000;

/// Shared memory that is no cache of files, by how its path begins; also what has no path.
const MEMORY_PATHS: [&str; 4] = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"];

/// Why a process is to be looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Nothing is known of its memory.
    First,
    /// It has more or less memory than it had, or another name.
    Changed,
    /// It runs elsewhere.
    Placed,
    /// Some of its memory was just moved.
    Moved,
    /// It said where memory goes, and may have taken that back, or was just doing so when it was
    /// read: nothing else shows it.
    Bound,
}

/// Why a process is to be looked into now, if it is.
pub fn cause(
    member: &Member,
    ground: &Ground,
    now_ns: u64,
    settings: &BalanceSettings,
) -> Option<Cause> {
    let now = member.now.as_ref()?;
    if member.denied.is_some() || now.cpu_time_ns < settings.rules.run_ns_min {
        return None;
    }
    let may_look = member.look_wait.is_over(now_ns);
    if member.must_look || member.is_moving {
        return (may_look && !member.is_moving).then_some(Cause::Moved);
    }
    let Some(sight) = &member.sight else { return may_look.then_some(Cause::First) };
    let by = now.own_bytes.abs_diff(sight.own_bytes);
    let part = u128::from(sight.own_bytes) * u128::from(settings.grown_ppm) / 1_000_000;
    let has_changed = (u128::from(by) > part && by > GROWN_BYTES) || now.name != sight.name;
    let here = busiest(member, ground);
    let has_moved = here.is_some() && here != sight.busiest;
    match (may_look, has_changed, has_moved) {
        (true, true, _) => Some(Cause::Changed),
        (true, false, true) => Some(Cause::Placed),
        (true, false, false) if sight.bound != Bound::default() => Some(Cause::Bound),
        _ => None,
    }
}

/// Looks into a process.
///
/// # Errors
/// As the process answers; it then waits before it is looked into again.
pub fn look(
    machine: &dyn Machine,
    (key, member): (Key, &mut Member),
    ground: &Ground,
    settings: &BalanceSettings,
    cause: Cause,
) -> Result<()> {
    let now_ns = machine.now_ns();
    let time = LookTime::of(member, settings);
    match see(machine, (key, member), settings, cause, time) {
        Ok(None) => {
            member.look_ns = time.ns * 2;
            member.look_wait.start(now_ns, false, WAIT_NS);
            Ok(())
        }
        Ok(Some(mut sight)) => {
            sight.busiest = busiest(member, ground);
            let before = member.sight.as_ref();
            let for_nothing = before.is_some_and(|before| {
                before.bound == sight.bound && is_same(&before.pages, &sight.pages)
            });
            let is_other = before.is_none_or(|before| before.program != sight.program);
            if is_other || (cause == Cause::Changed && !for_nothing) {
                member.stuck.clear();
            }
            member.look_wait.start(now_ns, for_nothing, WAIT_NS);
            // A look is told from the one before by its time.
            sight.at_ns = sight.at_ns.max(before.map_or(1, |before| before.at_ns + 1));
            member.must_look = false;
            member.look_ns = 0;
            member.sight = Some(sight);
            Ok(())
        }
        Err(error) => {
            member.look_wait.start(now_ns, true, WAIT_NS);
            Err(error)
        }
    }
}

/// The CPU time that a look may take.
#[derive(Clone, Copy)]
struct LookTime {
    ns: u64,
    /// The next one gets no more.
    is_most: bool,
}

impl LookTime {
    fn of(member: &Member, settings: &BalanceSettings) -> Self {
        let first_ns = meter::converging_ns_per_s(settings) * LOOK_SECONDS;
        let most_ns = first_ns * LOOK_FACTOR_MAX;
        let ns = member.look_ns.clamp(first_ns, most_ns);
        Self { ns, is_most: ns == most_ns }
    }
}

/// What is there now; `None` if there was too little time to see it.
fn see(
    machine: &dyn Machine,
    (key, member): (Key, &Member),
    settings: &BalanceSettings,
    cause: Cause,
    time: LookTime,
) -> Result<Option<Sight>> {
    let process = machine.hold(key.0)?;
    let identity = process.identity()?;
    if identity.started_ticks != key.1 {
        return Err(Error::Gone(key.0));
    }
    let earlier = member.sight.as_ref().filter(|sight| sight.program == identity.program);
    let now_ns = machine.now_ns();
    let is_fresh = |sight: &&Sight| now_ns.abs_diff(sight.bound_at_ns) < BOUND_NS;
    // New memory may have a policy of its own.
    let may_differ = matches!(cause, Cause::Changed | Cause::Bound);
    let known = earlier.filter(is_fresh).filter(|sight| !may_differ && !sight.bound.whole);
    let (bound, bound_at_ns) = match known {
        Some(sight) => (sight.bound.clone(), sight.bound_at_ns),
        None => (bound_of(&*process)?, now_ns),
    };
    let (free, tied) = parts(process.mappings()?, &bound.ranges);
    let options = Options {
        reach_ppm: settings.reach_ppm,
        seed: member.entity.0,
        time_ns_max: Some(time.ns.saturating_mul(LOOK_WAITS)),
        cpu_ns_max: Some(time.ns),
        ..Options::default()
    };
    let mut was_cut = false;
    let mut pages = |mappings| -> Result<BTreeMap<NodeId, u64>> {
        let seen = residency::measure_of(machine, &*process, mappings, &options)?;
        was_cut |= seen.capped;
        Ok(seen.total().nodes.into_iter().map(|(node, share)| (node, share.pages)).collect())
    };
    let bound_pages = if tied.is_empty() { BTreeMap::new() } else { pages(tied)? };
    let mut all = pages(free)?;
    if was_cut && !time.is_most {
        return Ok(None);
    }
    crate::tally::add_counts(&mut all, &bound_pages);
    let now = member.now.as_ref();
    Ok(Some(Sight {
        at_ns: now_ns,
        name: now.map(|now| now.name.clone()).unwrap_or_default(),
        own_bytes: now.map_or(0, |now| now.own_bytes),
        busiest: None,
        program: identity.program,
        pages: all,
        bound_pages,
        bound,
        bound_at_ns,
    }))
}

/// What a machine that does not tell policies cannot refuse to tell.
fn bound_of(process: &dyn Process) -> Result<Bound> {
    match process.bound() {
        Err(Error::Unsupported { .. }) => Ok(Bound::default()),
        bound => bound,
    }
}

/// The memory that is a process's own, cut into what may be moved and what a policy binds.
pub fn parts(mappings: Vec<Mapping>, bound: &[Range]) -> (Vec<Mapping>, Vec<Mapping>) {
    let (mut free, mut tied) = (Vec::new(), Vec::new());
    for mapping in mappings.into_iter().filter(is_own) {
        let piece = |range| Mapping { range, ..mapping.clone() };
        let mut start = mapping.range.start;
        for cut in bound.iter().filter_map(|range| mapping.range.and(*range)) {
            if cut.end <= start {
                continue;
            }
            free.push(piece(Range::new(start, cut.start)));
            tied.push(piece(Range::new(start.max(cut.start), cut.end)));
            start = cut.end;
        }
        free.push(piece(Range::new(start, mapping.range.end)));
    }
    free.retain(|mapping| !mapping.range.is_empty());
    (free, tied)
}

/// Whether a mapping holds memory of the process, not a cache of a file.
fn is_own(mapping: &Mapping) -> bool {
    let path = &mapping.path;
    match mapping.kind {
        MappingKind::File => false,
        MappingKind::Shared => {
            path.is_empty() || MEMORY_PATHS.iter().any(|prefix| path.starts_with(prefix))
        }
        MappingKind::Heap | MappingKind::Stack | MappingKind::Anonymous | MappingKind::Huge => true,
    }
}

/// Whether the shares of nodes are what they were.
fn is_same(before: &BTreeMap<NodeId, u64>, now: &BTreeMap<NodeId, u64>) -> bool {
    let share = |pages: &BTreeMap<NodeId, u64>, node: &NodeId| {
        let whole: u64 = pages.values().sum();
        let on = pages.get(node).copied().unwrap_or(0);
        u64::try_from(u128::from(on) * 1_000_000 / u128::from(whole.max(1))).unwrap_or(0)
    };
    let mut nodes = before.keys().chain(now.keys());
    nodes.all(|node| share(before, node).abs_diff(share(now, node)) < SAME_PPM)
}

/// Processes in the order in which they are looked into: first those that are named, then those
/// whose memory was moved or never seen, those that are bound last, the busiest first.
pub fn in_order(due: &mut [(Key, Cause, u64)], first: Option<Pid>) {
    due.sort_by_key(|&((pid, started), cause, load_ppm)| {
        let rank = if cause == Cause::Moved { 0 } else { 1 + cause as u8 };
        (Some(pid) != first, rank, std::cmp::Reverse(load_ppm), pid, started)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, kind: MappingKind, path: &str) -> Mapping {
        let range = Range::new(start, end);
        let shared = kind == MappingKind::Shared;
        Mapping { range, kind, shared, huge_page_bytes: None, path: path.into() }
    }

    fn ranges(mappings: &[Mapping]) -> Vec<(u64, u64)> {
        mappings.iter().map(|m| (m.range.start, m.range.end)).collect()
    }

    /// Goal: what a policy binds is cut out, wherever it lies in a mapping or beyond it; caches of
    /// files are left out altogether.
    #[test]
    fn bound_ranges_are_cut_out() {
        use MappingKind::{Anonymous, File, Shared};
        let mappings = vec![
            mapping(0, 100, Anonymous, ""),
            mapping(100, 200, File, "/bin/db"),
            mapping(200, 300, Shared, "/data/table"),
            mapping(300, 400, Shared, "/dev/shm/x"),
            mapping(400, 500, Anonymous, ""),
        ];
        let bound = [(0, 10), (5, 20), (50, 60), (350, 450)].map(|(a, b)| Range::new(a, b));
        let (free, tied) = parts(mappings, &bound);
        assert_eq!(ranges(&free), [(20, 50), (60, 100), (300, 350), (450, 500)]);
        assert_eq!(ranges(&tied), [(0, 10), (10, 20), (50, 60), (350, 400), (400, 450)]);
    }

    /// Goal: who was asked for comes first, then what was moved, then what was never seen, by load.
    #[test]
    fn the_order_of_looks() {
        let key = |pid| (Pid::new(pid).unwrap(), 0);
        let mut due = [
            (key(1), Cause::Placed, 9),
            (key(2), Cause::First, 1),
            (key(3), Cause::First, 5),
            (key(4), Cause::Moved, 0),
            (key(5), Cause::Changed, 7),
        ];
        in_order(&mut due, Pid::new(5).ok());
        assert_eq!(due.map(|(key, ..)| key.0.number()), [5, 4, 3, 2, 1]);
    }
}
