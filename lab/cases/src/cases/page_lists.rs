//! `nodeward pcp`: page lists of a real kernel, shown, and tuned where the kernel does not.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::case_outcome::{CaseFn, CaseOutcome, CaseSkipped};
use crate::guest::{UNPRIVILEGED_USER, is_kernel, kib, pin_this_thread, read, wait_until, write};
use crate::nodeward::{RunningMove, nodeward, nodeward_as};

pub const CASES: [(&str, CaseFn); 9] = [
    ("page_lists_shown", shown),
    ("page_lists_tuned", tuned),
    ("page_lists_left_alone", left_alone),
    ("page_lists_short_memory", short_memory),
    ("page_lists_killed", killed),
    ("page_lists_changed", changed),
    ("page_lists_of_two", of_two),
    ("page_lists_tuned_by_balance", tuned_by_balance),
    ("page_lists_advice", advice),
];

const FRACTION: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
const RECORD: &str = "/var/lib/nodeward/pcp.takeover";
/// What each CPU allocates and frees in turn: 64 MiB, 16,384 pages.
const SWING_BYTES: usize = 64 << 20;

/// CPUs that allocate and free memory in turn, until this is dropped.
struct Swings {
    ends: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Swings {
    fn start() -> Self {
        let (ends, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let swing = |cpu: usize| {
            let (ends, done) = (Arc::clone(&ends), Arc::clone(&done));
            thread::spawn(move || {
                pin_this_thread(&[cpu]);
                let block = vec![1; 1 << 20];
                while !ends.load(Ordering::Relaxed) {
                    let mut file = File::create(format!("/tmp/swing-{cpu}")).expect("a file");
                    (0..SWING_BYTES / block.len())
                        .for_each(|_| file.write_all(&block).expect("memory for a file"));
                    file.set_len(0).expect("a file can be cut");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let threads = (0..2).map(swing).collect();
        Self { ends, done, threads }
    }

    /// Returns a time in which each CPU makes a whole swing, however slow the host is.
    fn period() -> Duration {
        let began = Instant::now();
        let swings = Self::start();
        wait_until("each CPU made two swings", || swings.done.load(Ordering::Relaxed) >= 4);
        began.elapsed().max(Duration::from_secs(1))
    }
}

impl Drop for Swings {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().expect("a thread ends"));
    }
}

fn fraction() -> u32 {
    read(FRACTION).trim().parse().expect("a number")
}

fn self_tuning() -> String {
    let shown: Value = nodeward("pcp show --json").json_after_exit(0);
    shown["self_tuning"].as_str().expect("a word").to_owned()
}

/// Skips a case about kernels that do not tune their lists.
fn only_without_tuner() -> CaseOutcome {
    match self_tuning().as_str() {
        "absent" => Ok(()),
        other => Err(CaseSkipped(format!("this kernel tunes its lists itself: {other}"))),
    }
}

/// Returns the command of a tuner. In the lab a list has up to 14,078 pages by default (1/15 of a
/// zone of 1 GiB has 16,381).
fn tune(period: Duration) -> String {
    format!("pcp tune --json --min-fraction 8 --interval {}ms", period.as_millis())
}

/// Starts a tuner, and waits until it has set a fraction.
fn start_tuner() -> RunningMove {
    let tuner = RunningMove::of_verb(&tune(Swings::period()));
    wait_until("a fraction is set", || fraction() != 0);
    tuner
}

/// Goal: anybody sees the lists of every kernel: a list for each of two CPUs in each zone, with
/// their batch, and who sets their length.
fn shown() -> CaseOutcome {
    let is_old = ["5.10", "6.1"].into_iter().any(is_kernel);
    assert_eq!(self_tuning(), if is_old { "absent" } else { "active" });
    let shown: Value = nodeward_as(UNPRIVILEGED_USER, "pcp show --json").json_after_exit(0);
    assert_eq!(shown["high_fraction"].is_null(), !Path::new(FRACTION).exists());
    for zone in shown["zones"].as_array().expect("zones") {
        let lists = zone["lists"].as_array().expect("lists");
        let cpus: Vec<_> = lists.iter().map(|list| list["cpu"].as_u64()).collect();
        assert_eq!(cpus, [Some(0), Some(1)], "{zone}");
        assert!(lists.iter().all(|list| list["batch_pages"].as_u64() > Some(0)), "{zone}");
    }
    let swings = Swings::start();
    let watched = nodeward_as(UNPRIVILEGED_USER, "pcp watch --rounds 2");
    drop(swings);
    assert_eq!(watched.code, 0, "{watched:?}");
    assert!(watched.stdout.contains("NODE ZONE"), "lists changed: {watched:?}");
    nodeward_as(UNPRIVILEGED_USER, "pcp advise --for 1s").assert_refused(4, &["CAP_BPF"]);
    Ok(())
}

/// Visits of zones for a million pages that were allocated, in the periods that `is_wanted`.
fn visits_per_million(rounds: &[Value], is_wanted: impl Fn(&Value) -> bool) -> f64 {
    let cpus = || {
        let wanted = rounds.iter().filter(|round| is_wanted(round));
        wanted.flat_map(|round| round["cpus"].as_array().expect("CPUs"))
    };
    let sum = |name: &str| cpus().filter_map(|cpu| cpu[name].as_u64()).sum::<u64>();
    let (visits, pages) = (sum("refills") + sum("drains"), sum("allocated_pages"));
    assert!(pages > 0, "nothing was allocated");
    visits as f64 * 1e6 / pages as f64
}

/// Goal: CPUs that allocate and free 64 MiB in turn get longer lists and visit zones a tenth as
/// often; when they end the default comes back, and at SIGTERM there is nothing left.
fn tuned() -> CaseOutcome {
    only_without_tuner()?;
    let period = Swings::period();
    let tuner = RunningMove::of_verb(&tune(period));
    wait_until("it counts", || tuner.takes_signals());
    let swings = Swings::start();
    wait_until("a fraction is set", || fraction() != 0);
    let set = fraction();
    // A list needs a swing to fill; then some periods of long lists follow.
    thread::sleep(20 * period);
    drop(swings);
    wait_until("the default is back", || fraction() == 0);
    tuner.signal(Signal::TERM);
    let ended = tuner.finish();
    assert_eq!((ended.code, fraction(), Path::new(RECORD).exists()), (0, 0, false), "{ended:?}");
    assert!(ended.stderr.contains("percpu_pagelist_high_fraction is 0 again"), "{ended:?}");
    let rounds: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let is_deep = |round: &Value| {
        let depth = |cpu: &Value| cpu["alloc_depth_pages"].as_u64() > Some(16_000);
        round["cpus"].as_array().is_some_and(|cpus| cpus.iter().any(depth))
    };
    let is_long = |round: &Value| round["before_fraction"] != 0;
    let by_default = visits_per_million(&rounds, |round| is_deep(round) && !is_long(round));
    // In the last third lists are filled.
    let deep: Vec<Value> = rounds.iter().filter(|r| is_deep(r) && is_long(r)).cloned().collect();
    let filled = &deep[deep.len() * 2 / 3..];
    let tuned = visits_per_million(filled, |_| true);
    println!("visits per million pages: {by_default:.0} by default, {tuned:.0} with 1/{set}");
    let stranded = rounds.iter().filter_map(|round| round["stranded_pages"].as_u64()).max();
    let last_deep = rounds.iter().rposition(is_deep).expect("a deep period");
    let back = rounds[last_deep..].iter().position(|round| round["chosen_fraction"] == 0);
    println!("pages that lists could hold more: {stranded:?}");
    let back = back.expect("the default was chosen");
    for (name, measured) in [("visits", tuned / by_default), ("back", back as f64)] {
        println!("pcp.{name} {}", json!({ "measured": measured }));
    }
    assert!(tuned <= by_default / 10.0, "{tuned} of {by_default}");
    Ok(())
}

/// Goal: a kernel that tunes its lists itself is told so, and nothing is set.
fn left_alone() -> CaseOutcome {
    if self_tuning() == "absent" {
        return Err(CaseSkipped("this kernel does not tune its lists".to_owned()));
    }
    let swings = Swings::start();
    let told = nodeward("pcp tune --min-fraction 8 --for 5s");
    drop(swings);
    assert_eq!((told.code, fraction()), (0, 0), "{told:?}");
    assert!(told.stderr.contains("tunes its page lists itself"), "{told:?}");
    assert!(!Path::new(RECORD).exists(), "{told:?}");
    Ok(())
}

/// Goal: when zones have no more free pages than their high watermark, the default comes back while
/// the load goes on. Watermarks are raised instead of filling memory: the high one is half above
/// the lowest, so 3/4 of the memory as the lowest puts the high one above all of it, and nothing
/// fails.
fn short_memory() -> CaseOutcome {
    only_without_tuner()?;
    let swings = Swings::start();
    let tuner = start_tuner();
    let before = read(MIN_FREE);
    let total = kib("/proc/meminfo", "MemTotal");
    write(MIN_FREE, &(total * 3 / 4).to_string());
    wait_until("the default is back", || fraction() == 0);
    write(MIN_FREE, before.trim());
    wait_until("long lists are back", || fraction() != 0);
    drop(swings);
    tuner.signal(Signal::TERM);
    let ended = tuner.finish();
    assert_eq!((ended.code, fraction()), (0, 0), "{ended:?}");
    assert!(ended.stdout.contains("\"is_memory_short\":true"), "{ended:?}");
    Ok(())
}

/// Goal: after a kill -9 `pcp restore`, and the next start, set the value to what it was.
fn killed() -> CaseOutcome {
    only_without_tuner()?;
    let swings = Swings::start();
    start_tuner().kill();
    assert!(fraction() != 0 && Path::new(RECORD).exists());
    let restored = nodeward("pcp restore");
    assert_eq!((restored.code, fraction(), Path::new(RECORD).exists()), (0, 0, false));
    assert!(restored.stdout.contains("is 0 again"), "{restored:?}");
    start_tuner().kill();
    drop(swings);
    let next = nodeward("pcp tune --for 100ms");
    assert_eq!((next.code, fraction(), Path::new(RECORD).exists()), (0, 0, false), "{next:?}");
    assert!(next.stderr.contains("a tuner that was killed left it set"), "{next:?}");
    assert!(nodeward("pcp restore").stdout.contains("nothing to restore"));
    Ok(())
}

/// Goal: who sets the value meanwhile has the last word: the tuner ends, says so, and leaves it.
fn changed() -> CaseOutcome {
    only_without_tuner()?;
    let swings = Swings::start();
    let tuner = start_tuner();
    write(FRACTION, "100");
    let ended = tuner.finish();
    drop(swings);
    let told = ended.stderr.contains("somebody set vm.percpu_pagelist_high_fraction to 100");
    assert!(ended.code == 0 && told, "{ended:?}");
    assert_eq!((fraction(), Path::new(RECORD).exists()), (100, false));
    write(FRACTION, "0");
    Ok(())
}

/// Goal: a second tuner, also with a directory of its own, is refused, and changes nothing.
fn of_two() -> CaseOutcome {
    only_without_tuner()?;
    let swings = Swings::start();
    let first = start_tuner();
    let set = fraction();
    nodeward("pcp tune --for 1s").assert_refused(3, &["another process does that already"]);
    assert_ne!((set, fraction()), (0, 0));
    first.signal(Signal::INT);
    let ended = first.finish();
    drop(swings);
    assert_eq!((ended.code, fraction()), (0, 0), "{ended:?}");
    Ok(())
}

/// Goal: a balancer that was told so tunes, too, and the default is back when it ends, and after a
/// kill at the start of the next one, which does not tune.
fn tuned_by_balance() -> CaseOutcome {
    only_without_tuner()?;
    let swings = Swings::start();
    let start = || {
        let balancer = RunningMove::of_verb("balance --page-lists tune --name nobody");
        wait_until("a fraction is set", || fraction() != 0);
        balancer
    };
    let first = start();
    first.signal(Signal::TERM);
    let ended = first.finish();
    assert_eq!((ended.code, fraction()), (0, 0), "{ended:?}");
    for words in ["set high_fraction from 0 to ", "percpu_pagelist_high_fraction is 0 again"] {
        assert!(ended.stderr.contains(words), "{ended:?}");
    }
    start().kill();
    drop(swings);
    assert!(fraction() != 0 && Path::new(RECORD).exists());
    let next = nodeward("balance --for 1s --name nobody");
    assert_eq!((next.code, fraction(), Path::new(RECORD).exists()), (0, 0, false), "{next:?}");
    assert!(next.stderr.contains("is 0 again"), "{next:?}");
    Ok(())
}

/// Goal: advice is that of the same depths, and changes nothing.
fn advice() -> CaseOutcome {
    let swings = Swings::start();
    let advised: Value = nodeward("pcp advise --json --min-fraction 8 --for 8s").json_after_exit(0);
    drop(swings);
    let cpus = advised["cpus"].as_array().expect("CPUs");
    assert_eq!(cpus.len(), 2, "{advised}");
    for cpu in cpus {
        let depth = cpu["alloc_depth_pages"].as_u64();
        assert!(depth >= Some(16_000), "{advised}");
    }
    assert!(advised["advised_fraction"].as_u64() >= Some(8), "{advised}");
    println!("{advised}");
    if Path::new(FRACTION).exists() {
        assert_eq!(fraction(), 0);
    }
    Ok(())
}
