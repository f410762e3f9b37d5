//! What a server feels while its memory moves: how late its answers are, and how much work is lost,
//! beside the same by `migratepages`.
//!
//! Both move the same process to and fro, in pairs whose order is shuffled; each begins when the
//! requests of the one before are answered.

mod client;
mod load;
mod protocol;
mod server;

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args as Group, ValueEnum};
use nodeward_model::units::parse_bytes;
use serde_json::{Value, json};

use self::client::CheckingClient;
use self::load::{RequestLoop, TimedRequest};
use self::protocol::ServerKind;
use self::server::VictimServer;
use crate::commands::{Direction, MoveCommand};
use crate::numbers::{all_rounded, median, ms, rounded};
use crate::shuffle::shuffled;

/// The time without a move before and after each.
const REST: Duration = Duration::from_millis(500);
/// A server that takes longer to answer what came late does not keep up with its requests.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(120);

/// Options of `victim`.
#[derive(Clone, Debug, Group)]
pub struct VictimOptions {
    /// The server
    #[arg(long, value_enum)]
    pub server: ServerKind,
    /// The value to print as `measured`, as a part of that by `migratepages`
    #[arg(long, value_enum)]
    pub figure: VictimFigure,
    /// Size of all values together
    #[arg(long, default_value = "256MiB", value_parser = parse_bytes)]
    pub size: u64,
    /// Number of pairs of moves that are compared
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Requests per second of --figure worst [default: half of those that a closed loop makes]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    /// Options for `nodeward move`, such as --stall 1ms
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// A figure of `victim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VictimFigure {
    /// The longest time from when a request was due to its answer, of an open loop
    Worst,
    /// The work that is lost during a move, of a closed loop
    Lost,
}

/// Measures both commands at one server.
pub fn measure(options: &VictimOptions) -> Result<Value> {
    let server = VictimServer::start(options.server, options.size)?;
    let client = CheckingClient::fill(options.server, &server.socket(), options.size)?;
    let ours = MoveCommand::Nodeward(options.options.clone());
    // Unmeasured: a guest's memory is allocated by its host at the first touch.
    for direction in [Direction::Forward, Direction::Backward] {
        ours.run_as_far_as_possible(server.pid(), direction)?;
    }
    let moves = ComparedMoves {
        pid: server.pid(),
        pairs: options.pairs,
        ours,
        theirs: MoveCommand::Migratepages,
    };
    match options.figure {
        VictimFigure::Worst => worst(&moves, client, options),
        VictimFigure::Lost => lost(&moves, client, options),
    }
}

/// The moves that are compared.
struct ComparedMoves {
    pid: u32,
    pairs: u32,
    ours: MoveCommand,
    theirs: MoveCommand,
}

impl ComparedMoves {
    /// Has `measure` move the process there and back by turns. Each command is first in half of the
    /// pairs. Returns what was measured, of ours and of theirs.
    fn each<T>(
        &self,
        mut measure: impl FnMut(&dyn Fn() -> Result<Duration>) -> Result<T>,
    ) -> Result<[Vec<T>; 2]> {
        let mut measured = [Vec::new(), Vec::new()];
        let mut turn = 0;
        for number in shuffled(u64::from(self.pairs)) {
            let first = (number % 2) as usize;
            for which in [first, 1 - first] {
                let command = [&self.ours, &self.theirs][which];
                let direction = Direction::of_round(turn);
                measured[which]
                    .push(measure(&|| command.run_as_far_as_possible(self.pid, direction))?);
                turn += 1;
            }
        }
        Ok(measured)
    }
}

/// The longest latency during each move, and until what came late was answered.
fn worst(moves: &ComparedMoves, client: CheckingClient, options: &VictimOptions) -> Result<Value> {
    let (client, requests_per_s) = match options.rate {
        Some(rate) => (client, f64::from(rate)),
        None => half_of_closed_rate(client)?,
    };
    let interval = Duration::from_secs_f64(1.0 / requests_per_s);
    let open = RequestLoop::begin(client, Some(interval));
    let windows = moves.each(|run| {
        thread::sleep(REST);
        let began = open.elapsed();
        let took = run()?;
        catch_up(&open, interval)?;
        Ok((took, began, open.elapsed()))
    })?;
    let (_, requests) = open.end()?;
    let felt = |(took, from, to)| Felt { took, felt: longest(&requests, from, to).as_secs_f64() };
    let rows = windows.map(|windows| windows.into_iter().map(felt).collect());
    Ok(record(options, &rows, requests_per_s))
}

/// The part of the work of a closed loop that is missing after each move: the time in which the
/// server did none.
fn lost(moves: &ComparedMoves, client: CheckingClient, options: &VictimOptions) -> Result<Value> {
    let closed = RequestLoop::begin(client, None);
    let mut rates = Vec::new();
    let rows = moves.each(|run| {
        let before = rate_of(&closed);
        let (began, answered) = (closed.elapsed(), closed.answered());
        let took = run()?;
        let (during, answered) = (closed.elapsed() - began, closed.answered() - answered);
        rates.push(f64::midpoint(before, rate_of(&closed)));
        let done = answered as f64 / rates[rates.len() - 1];
        Ok(Felt { took, felt: during.as_secs_f64() - done })
    })?;
    closed.end()?;
    Ok(record(options, &rows, median(&rates)))
}

/// What a server felt of one move, in seconds.
struct Felt {
    took: Duration,
    felt: f64,
}

/// Returns half of the answers per second of a closed loop, and its client.
fn half_of_closed_rate(client: CheckingClient) -> Result<(CheckingClient, f64)> {
    let closed = RequestLoop::begin(client, None);
    let rate = rate_of(&closed);
    Ok((closed.end()?.0, rate.max(1.0) / 2.0))
}

/// Returns the answers per second while nothing moves.
fn rate_of(closed: &RequestLoop) -> f64 {
    let (began, answered) = (closed.elapsed(), closed.answered());
    thread::sleep(REST);
    (closed.answered() - answered) as f64 / (closed.elapsed() - began).as_secs_f64()
}

/// Waits until requests begin in time again, several in a row.
fn catch_up(open: &RequestLoop, interval: Duration) -> Result<()> {
    let began = open.elapsed();
    let mut in_time = 0;
    while in_time < 5 {
        thread::sleep(interval * 4);
        in_time = if open.late() < interval * 4 { in_time + 1 } else { 0 };
        ensure!(open.elapsed() - began < CATCHES_UP_WITHIN, "the server does not keep up");
    }
    Ok(())
}

/// Returns the longest latency of the requests that were due within a time.
fn longest(requests: &[TimedRequest], from: Duration, to: Duration) -> Duration {
    let within = requests.iter().filter(|request| (from..to).contains(&request.due));
    within.map(|request| request.answered - request.due).max().unwrap_or_default()
}

fn record(options: &VictimOptions, rows: &[Vec<Felt>; 2], requests_per_s: f64) -> Value {
    let command = MoveCommand::Nodeward(options.options.clone()).name();
    let felt_ms = rows.each_ref().map(|row| row.iter().map(|it| it.felt * 1e3).collect::<Vec<_>>());
    let took_ms = |row: &[Felt]| ms(&row.iter().map(|it| it.took).collect::<Vec<_>>());
    let [ours, theirs] = felt_ms.each_ref().map(|felt| median(felt));
    let ratio = ours / theirs;
    eprintln!(
        "  {command}: {ours:.1} ms; migratepages: {theirs:.1} ms; {ratio:.2} times (medians)"
    );
    json!({
        "measured": rounded(ratio),
        "unit": "x",
        "server": options.server,
        "command": command,
        "size_bytes": options.size,
        "requests_per_s": rounded(requests_per_s),
        "nodeward_median_ms": rounded(ours),
        "migratepages_median_ms": rounded(theirs),
        "nodeward_ms": all_rounded(&felt_ms[0]),
        "migratepages_ms": all_rounded(&felt_ms[1]),
        "nodeward_took_ms": all_rounded(&took_ms(&rows[0])),
        "migratepages_took_ms": all_rounded(&took_ms(&rows[1])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: latency counts from when a request was due, and only within the time of the move.
    #[test]
    fn the_longest_latency_is_that_of_the_window() {
        let ms = Duration::from_millis;
        let request = |due, answered| TimedRequest { due: ms(due), answered: ms(answered) };
        let requests = [request(0, 90), request(10, 95), request(20, 96), request(100, 101)];
        assert_eq!(longest(&requests, ms(10), ms(100)), ms(85)); // due at 10, answered at 95
        assert_eq!(longest(&requests, ms(100), ms(200)), ms(1));
        assert_eq!(longest(&requests, ms(200), ms(300)), ms(0));
    }
}
