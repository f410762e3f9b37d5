//! The cost of sampling processes for a balancer: its own CPU time for sampling many threads that
//! sleep, or work a little between two samples.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{MachineSnapshot, ProcessFilter};
use serde_json::{Value, json};

use crate::args::{Awake, CrowdOptions, LookOptions};
use crate::numbers::{all_rounded, rounded};

/// The interval between two samples in a balancer, in nanoseconds.
const INTERVAL_NS: f64 = 1e9;
/// The interval between two turns of a working thread: some turns fit between two samples.
const TURN: Duration = Duration::from_millis(200);
/// Work in a turn if all threads work, so that none is skipped as idle; and if one of each process
/// works.
const ALL_AWAKE_WORK: Duration = Duration::from_micros(100);
const ONE_AWAKE_WORK: Duration = Duration::from_micros(20);

/// Samples everything that runs on this machine, including the crowd.
pub fn measure(options: &LookOptions) -> Result<Value> {
    let crowds = CrowdProcess::start_all(options)?;
    let machine = Linux::open();
    let mut watch = machine.watch(&ProcessFilter::default())?;
    let mut look = || -> Result<(f64, MachineSnapshot)> {
        let before = machine.own_cpu_time_ns();
        let snapshot = watch.snapshot()?;
        Ok(((machine.own_cpu_time_ns() - before) as f64, snapshot))
    };
    let (first_ns, _) = look()?;
    let mut looks_ns = Vec::new();
    let (mut threads, mut ran) = (0, 0);
    let mut last = look()?.1;
    for _ in 0..options.looks {
        thread::sleep(Duration::from_millis(options.pause_ms));
        let (ns, snapshot) = look()?;
        looks_ns.push(ns);
        threads += count(&snapshot);
        ran += count_ran(&last, &snapshot);
        last = snapshot;
    }
    drop(crowds);
    let looks = f64::from(options.looks);
    let (threads, ran) = (threads as f64 / looks, ran as f64 / looks);
    ensure!(threads >= f64::from(options.threads), "only {threads} threads were seen");
    let mean_ns = looks_ns.iter().sum::<f64>() / looks;
    let in_ms = |ns: f64| ns / 1e6;
    Ok(json!({
        "measured": rounded(mean_ns / INTERVAL_NS * 100.0 / (threads / 1000.0)),
        "unit": "%",
        "of_a_cpu_per": "1000 threads, at one look a second",
        "threads_seen": rounded(threads),
        "threads_that_ran": rounded(ran),
        "processes": options.processes,
        "first_look_ms": rounded(in_ms(first_ns)),
        "looks_ms": all_rounded(&looks_ns.iter().map(|&ns| in_ms(ns)).collect::<Vec<_>>()),
    }))
}

fn count(snapshot: &MachineSnapshot) -> usize {
    snapshot.processes.iter().map(|process| process.threads.len()).sum()
}

/// Returns the number of threads whose CPU time grew.
fn count_ran(before: &MachineSnapshot, now: &MachineSnapshot) -> usize {
    let times = |snapshot: &MachineSnapshot| -> std::collections::BTreeMap<u32, u64> {
        let threads = snapshot.processes.iter().flat_map(|process| &process.threads);
        threads.map(|thread| (thread.tid, thread.cpu_time_ns)).collect()
    };
    let before = times(before);
    times(now).iter().filter(|&(tid, ns)| before.get(tid) != Some(ns)).count()
}

/// A process of the crowd, which ends when its input ends.
pub struct CrowdProcess(Child);

impl CrowdProcess {
    /// Starts processes of one thread each that sleep.
    pub fn sleeping(processes: u32) -> Result<Vec<Self>> {
        let options = LookOptions {
            threads: processes,
            processes,
            awake: Awake::None,
            looks: 0,
            pause_ms: 0,
        };
        Self::start_all(&options)
    }

    /// Starts a crowd.
    pub fn start_all(options: &LookOptions) -> Result<Vec<Self>> {
        (0..options.processes).map(|_| Self::start(options)).collect()
    }

    /// Starts a process of the crowd, and waits until all its threads are there.
    fn start(options: &LookOptions) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let threads = (options.threads / options.processes).max(1).to_string();
        command.args(["crowd", "--threads", &threads, "--awake"]);
        command.arg(match options.awake {
            Awake::None => "none",
            Awake::One => "one",
            Awake::All => "all",
        });
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().context("a process has no output")?;
        let member = Self(child);
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        ensure!(line == "ready\n", "a process of the crowd did not begin: '{line}'");
        Ok(member)
    }
}

impl Drop for CrowdProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}

/// Runs as a process of the crowd until its input ends.
pub fn run_crowd_process(options: &CrowdOptions) -> Result<Value> {
    for number in 1..options.threads {
        let awake = match options.awake {
            Awake::None => false,
            Awake::One => number == 1,
            Awake::All => true,
        };
        let turn = if options.awake == Awake::All { ALL_AWAKE_WORK } else { ONE_AWAKE_WORK };
        let body = move || if awake { work(turn) } else { sleep() };
        thread::Builder::new().stack_size(64 << 10).spawn(body)?;
    }
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    std::process::exit(0) // the parent reads no more output
}

fn work(turn: Duration) {
    loop {
        let began = Instant::now();
        while began.elapsed() < turn {
            std::hint::spin_loop();
        }
        thread::sleep(TURN);
    }
}

fn sleep() {
    loop {
        thread::park();
    }
}
