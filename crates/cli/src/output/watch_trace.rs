//! Rounds of `nodeward watch` as counters of a trace in the JSON format of Chrome, which
//! <https://ui.perfetto.dev> opens, also one whose closing bracket is missing because the command
//! was killed. Times are microseconds since 1970.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nodeward_files::{Visibility, create};
use nodeward_model::Escape as _;
use serde_json::json;

use super::watch::per_second;
use crate::results::page_movers::{MoverPeriod, PageMover, WatchRound};

/// The trace process of all counters.
const MACHINE: u32 = 1;

/// A trace that is being written.
pub struct WatchTrace {
    file: File,
    path: PathBuf,
    /// The counters that have had values; a calm round sets them to zero.
    known: BTreeMap<String, Values>,
}

/// The values of a counter, by their names.
type Values = BTreeMap<&'static str, u64>;

impl WatchTrace {
    /// Begins a trace in a file, which it replaces.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file = create(path, Visibility::Everyone);
        let file = file.with_context(|| format!("cannot write {}", path.escaped()))?;
        let mut trace = Self { file, path: path.to_owned(), known: BTreeMap::new() };
        let args = json!({ "name": "nodeward watch" });
        let name = json!({ "ph": "M", "name": "process_name", "pid": MACHINE, "args": args });
        trace.write(&format!("[\n{name}"))?;
        Ok(trace)
    }

    /// Appends a round; with the last one the end.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, round: &WatchRound) -> Result<()> {
        let end_us = round.time_unix_ms * 1000;
        let began_us = end_us.saturating_sub(round.interval.time_ns / 1000);
        let mut text = self.events(began_us, counters(&round.interval));
        if round.end.is_some() {
            text += &self.events(end_us, BTreeMap::new());
            text += "\n]\n";
        }
        self.write(&text)
    }

    /// Returns the events that give counters these values from a time on, and zeros to the others.
    fn events(&mut self, at_us: u64, now: BTreeMap<String, Values>) -> String {
        for values in self.known.values_mut() {
            values.values_mut().for_each(|value| *value = 0);
        }
        for (name, values) in now {
            self.known.entry(name).or_default().extend(values);
        }
        let event = |(name, values): (&String, &Values)| {
            let event =
                json!({ "ph": "C", "name": name, "pid": MACHINE, "ts": at_us, "args": values });
            format!(",\n{event}")
        };
        self.known.iter().map(event).collect()
    }

    fn write(&mut self, text: &str) -> Result<()> {
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}", self.path.escaped()))
    }
}

fn counters(period: &MoverPeriod) -> BTreeMap<String, Values> {
    let of_mover = |mover: &PageMover| counters_of(mover, period.time_ns);
    period.movers.iter().flat_map(of_mover).collect()
}

/// The counters of a mover: what it does, how long it holds pages, and what each caller does.
fn counters_of(mover: &PageMover, time_ns: u64) -> Vec<(String, Values)> {
    let rate = |pages: Option<u64>| Some(per_second(pages?.into(), time_ns));
    let done =
        [("moved pages/s", rate(mover.moved_pages)), ("failed pages/s", rate(mover.failed_pages))];
    let us = |ns: Option<u64>| Some(ns? / 1000);
    let times = mover.holds.map(|held| [("p50 us", us(held.p50_ns)), ("p99 us", us(held.p99_ns))]);
    let mut counters = vec![
        (mover.reason.clone(), known(done)),
        (format!("{} held", mover.reason), times.map(known).unwrap_or_default()),
    ];
    counters.extend(mover.callers.iter().map(|caller| {
        let moved = rate(Some(caller.counts.succeeded));
        let name = format!("{} by {} {}", mover.reason, caller.name, caller.pid);
        (name, known([("moved pages/s", moved)]))
    }));
    counters.retain(|(_, values)| !values.is_empty());
    counters
}

fn known<const N: usize>(values: [(&'static str, Option<u64>); N]) -> Values {
    values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nodeward_bpf::migrations::{CallerCounts, LostEvents};
    use serde_json::Value;

    use super::*;
    use crate::results::observation::WatchEnd;
    use crate::results::page_movers::{HeldTimes, PageCaller};

    const SECOND: u64 = 1_000_000_000;

    /// Half a second in which 500 pages moved for a tool of a hostile name, and were held.
    fn busy() -> MoverPeriod {
        let counts = CallerCounts { calls: 1, succeeded: 500, failed: 0 };
        let caller = PageCaller { pid: 153, name: b"\"\x1b[2J\xff"[..].into(), counts };
        let held = HeldTimes {
            entries: 500,
            p50_ns: Some(12_300),
            p99_ns: Some(410_000),
            max_ns: Some(1_203_456),
        };
        let mover = PageMover {
            reason: "syscall".to_owned(),
            moved_pages: Some(500),
            failed_pages: Some(2),
            holds: Some(held),
            callers: vec![caller],
            ..PageMover::default()
        };
        MoverPeriod { time_ns: SECOND / 2, movers: vec![mover], lost: LostEvents::default() }
    }

    fn round(number: u64, interval: MoverPeriod, end: Option<WatchEnd>) -> WatchRound {
        let total = interval.clone();
        WatchRound { number, time_unix_ms: 1_790_000_000_000 + number * 500, interval, total, end }
    }

    /// Goal: each round gives its counters values from its beginning on: 500 pages in half a second
    /// are 1000 a second; a calm round and the end give zeros. What a kernel does not tell has no
    /// counter. Until its end the trace is JSON but for the bracket.
    #[test]
    fn rounds_become_counters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let mut trace = WatchTrace::create(&path).unwrap();
        trace.add(&round(1, busy(), None)).unwrap();
        let events = |closing: &str| -> Vec<Value> {
            let text = fs::read_to_string(&path).unwrap() + closing;
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(events("]").len(), 4, "a name and three counters");
        let calm = MoverPeriod { time_ns: SECOND / 2, ..MoverPeriod::default() };
        trace.add(&round(2, calm, Some(WatchEnd::Time))).unwrap();
        let lines = events("").iter().map(|event| format!("{event}\n")).collect::<String>();
        insta::assert_snapshot!(lines);
    }

    /// Goal: a place that cannot be written to is named.
    #[test]
    fn no_place_for_it() {
        let told = WatchTrace::create(Path::new("/proc/none/trace.json")).err().unwrap();
        assert!(told.to_string().contains("/proc/none/trace.json"), "{told}");
        let mut full = WatchTrace::create(Path::new("/dev/null")).unwrap();
        full.file = File::options().write(true).open("/dev/full").unwrap();
        let told = full.add(&round(1, busy(), None)).unwrap_err();
        assert!(told.to_string().starts_with("cannot write /dev/null"), "{told}");
    }
}
