//! Figures shared by the tables about moves.

use nodeward_sim::ActionMoveReport;

use crate::reproduce::run_outcome::RunOutcome;

/// Returns the share of steps in the time of an action's first move, in per cent.
pub fn step_percent(outcome: &RunOutcome, action: usize, steps: &[&str]) -> f64 {
    let moved = first_move(outcome, action);
    let all: u64 = moved.step_ns.values().sum();
    let part: f64 = steps.iter().map(|step| step_ns(moved, step)).sum();
    part * 100.0 / all.max(1) as f64
}

/// Returns the microseconds that a step of an action's first move took per item.
pub fn step_us(outcome: &RunOutcome, action: usize, step: &str, things: f64) -> f64 {
    step_ns(first_move(outcome, action), step) / 1e3 / things
}

/// Returns the 10^9 bytes that an action's first move moved.
pub fn gigabytes(outcome: &RunOutcome, action: usize) -> f64 {
    let bytes = first_move(outcome, action).account.moved * outcome.report.machine.page_bytes;
    bytes as f64 / 1e9
}

/// Returns the rate of an action's first move in 10^9 bytes per second, with `calls` further calls
/// of `call_us` microseconds each.
pub fn gb_per_s(outcome: &RunOutcome, action: usize, calls: f64, call_us: f64) -> f64 {
    let ms = outcome.move_ms(action) + calls * call_us / 1e3;
    gigabytes(outcome, action) * 1e3 / ms
}

/// Returns the first move of an action.
///
/// # Panics
///
/// If there was none: a mistake of the table.
fn first_move(outcome: &RunOutcome, action: usize) -> &ActionMoveReport {
    outcome.moves(action).next().expect("the action moves something")
}

/// Returns the nanoseconds of a step of a move.
fn step_ns(moved: &ActionMoveReport, step: &str) -> f64 {
    moved.step_ns.get(step).copied().unwrap_or(0) as f64
}
