//! `nodeward bench agent`: how soon the agent answers beside rounds, and what that costs.
//!
//! Client, agent and balancer are threads of this process. What the agent costs is the CPU time of
//! the process without that of the two others.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nodeward_agent::client::Client;
use nodeward_agent::limits::MoveLimits;
use nodeward_agent::socket::{SocketAccess, listen};
use nodeward_agent::{Agent, AgentOptions, Journal};
use nodeward_balancer::{BalanceSettings, Balancer, CalledGroups, SharedGroups};
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{Pid, ProcessFilter};
use nodeward_mover::MoveControl;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::args::BenchAgentArgs;
use crate::figures::{AgentFigure, rounded};
use crate::message::exit::Exit;
use crate::output;
use crate::output::explain;
use crate::results::ProcessExplanation;

/// Time between two requests: 1,000 a second.
const PAUSE: Duration = Duration::from_millis(1);
/// Time between two rounds, the least that settings allow.
const INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of a request and of its answer, about. The echo sends this number of bytes.
const ECHO_BYTES: usize = 300;

/// Measures, and prints one number.
pub fn run(args: &BenchAgentArgs) -> Result<Exit> {
    let time = Duration::from_nanos(args.time);
    let (asked, rounds) = ask_agent(time)?;
    let echoed = ask_echo(time)?;
    let (measured, unit) = match args.figure {
        AgentFigure::Latency => (asked.percentile_ms(99), Some("ms")),
        AgentFigure::Cpu => (asked.cpu_percent(), Some("%")),
        AgentFigure::Echo => (asked.request_us() / echoed.request_us(), None),
    };
    let mut number = json!({
        "measured": rounded(measured),
        "p50_ms": rounded(asked.percentile_ms(50)),
        "p99_ms": rounded(asked.percentile_ms(99)),
        "cpu_percent": rounded(asked.cpu_percent()),
        "request_us": rounded(asked.request_us()),
        "echo_p50_ms": rounded(echoed.percentile_ms(50)),
        "echo_p99_ms": rounded(echoed.percentile_ms(99)),
        "echo_request_us": rounded(echoed.request_us()),
        "requests": asked.latencies_ns.len(),
        "rounds": rounds,
    });
    if let Some(unit) = unit {
        number["unit"] = json!(unit);
    }
    output::print(&format!("{number}\n"))?;
    Ok(Exit::Done)
}

/// Latencies in ascending order, and CPU time of who answered, both in nanoseconds.
struct PacedRequests {
    latencies_ns: Vec<u64>,
    cpu_ns: u64,
    took_ns: u64,
}

impl PacedRequests {
    fn percentile_ms(&self, percent: usize) -> f64 {
        let index = self.latencies_ns.len() * percent / 100;
        let ns = self.latencies_ns.get(index).or(self.latencies_ns.last());
        ns.map_or(f64::NAN, |&ns| ns as f64 / 1e6)
    }

    fn cpu_percent(&self) -> f64 {
        self.cpu_ns as f64 * 100.0 / self.took_ns.max(1) as f64
    }

    fn request_us(&self) -> f64 {
        self.cpu_ns as f64 / 1e3 / self.latencies_ns.len().max(1) as f64
    }
}

/// Asks an agent, in turns, who we are and what is decided about this process, while rounds look at
/// all processes. Returns the number of rounds, too.
fn ask_agent(time: Duration) -> Result<(PacedRequests, u64)> {
    let name = format!("nodeward-bench-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let (listener, _file) = listen(&path, SocketAccess { mode: 0o600, group: None })?;
    let machine: Arc<dyn Machine> = Arc::new(Linux::open());
    let options = AgentOptions {
        limits: MoveLimits::default(),
        explainer: |pid, report, row, json| {
            explain::append_process(&ProcessExplanation { pid, report, row }, json);
        },
        journal: Journal {
            begin: |_| None,
            end: |_, _| unreachable!("nothing is moved"),
            read: |_| None,
        },
        metrics_processes: 0,
    };
    let groups = SharedGroups::new(Arc::clone(&machine), CalledGroups::default());
    let agent = Agent::start(listener, Arc::clone(&machine), Arc::new(groups), options)?;
    let mut client = Client::connect(&path)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let rounds = scope.spawn(|| make_rounds(&machine, &agent, &is_over));
        let before_ns = machine.own_cpu_time_ns();
        let mut number = 0_u64;
        let measured = pace(time, || {
            number += 1;
            match number % 2 {
                0 => Ok(client.explain(Pid::of_this_process()).map(drop)?),
                _ => Ok(client.call("io.nodeward.Agent.Describe", json!({})).map(drop)?),
            }
        });
        let all_ns = machine.own_cpu_time_ns() - before_ns;
        is_over.store(true, Ordering::Relaxed);
        let rounds = rounds.join().ok().context("a round has failed")??;
        let mut measured = measured?;
        // `cpu_ns` is the client's so far.
        measured.cpu_ns = all_ns.saturating_sub(measured.cpu_ns + rounds.cpu_ns);
        Ok((measured, rounds.number))
    })
}

/// Rounds that were made, and their CPU time.
struct Rounds {
    number: u64,
    cpu_ns: u64,
}

fn make_rounds(machine: &Arc<dyn Machine>, agent: &Agent, is_over: &AtomicBool) -> Result<Rounds> {
    let settings = BalanceSettings {
        act: false,
        interval_ns: u64::try_from(INTERVAL.as_nanos())?,
        ..BalanceSettings::default()
    };
    let (wanted, live) = (ProcessFilter::default(), MoveControl::default());
    let mut balancer = Balancer::new(Arc::clone(machine), &wanted, settings, None)?;
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        agent.publish(&balancer.round(&live)?);
        number += 1;
        thread::sleep(INTERVAL);
    }
    Ok(Rounds { number, cpu_ns: thread_cpu_ns() })
}

/// Sends bytes to a thread that sends them back.
fn ask_echo(time: Duration) -> Result<PacedRequests> {
    let (mut near, mut far) = UnixStream::pair()?;
    let echo = thread::spawn(move || {
        let mut bytes = [0; ECHO_BYTES];
        while far.read_exact(&mut bytes).is_ok() && far.write_all(&bytes).is_ok() {}
        thread_cpu_ns()
    });
    let mut bytes = [1; ECHO_BYTES];
    let measured = pace(time, || {
        near.write_all(&bytes)?;
        Ok(near.read_exact(&mut bytes)?)
    });
    drop(near);
    let cpu_ns = echo.join().ok().context("the echo has failed")?;
    Ok(PacedRequests { cpu_ns, ..measured? })
}

/// Asks 1,000 times a second; `cpu_ns` of the result is that of this thread.
fn pace(time: Duration, mut ask: impl FnMut() -> Result<()>) -> Result<PacedRequests> {
    let (began, before_ns) = (Instant::now(), thread_cpu_ns());
    let mut latencies_ns = Vec::new();
    let mut due = began;
    while began.elapsed() < time {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due += PAUSE;
        let asked = Instant::now();
        ask()?;
        latencies_ns.push(u64::try_from(asked.elapsed().as_nanos())?);
    }
    latencies_ns.sort_unstable();
    Ok(PacedRequests {
        latencies_ns,
        cpu_ns: thread_cpu_ns() - before_ns,
        took_ns: u64::try_from(began.elapsed().as_nanos())?,
    })
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: of 1 to 200 ms the 99th percentile is above 198 of 200; of nothing there is none.
    #[test]
    fn percentiles_are_of_the_sorted() {
        let latencies_ns = (1..=200).map(|ms| ms * 1_000_000).collect();
        let measured = PacedRequests { latencies_ns, cpu_ns: 50, took_ns: 1000 };
        assert_eq!((measured.percentile_ms(50), measured.percentile_ms(99)), (101.0, 199.0));
        assert_eq!(measured.cpu_percent(), 5.0);
        let nothing = PacedRequests { latencies_ns: Vec::new(), cpu_ns: 0, took_ns: 0 };
        assert!(nothing.percentile_ms(99).is_nan());
    }
}
