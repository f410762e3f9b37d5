//! Decisions in words.

use nodeward_engine::balance::{ProcessRow, RoundReport};
use nodeward_model::units::{show_bytes, show_ns};
use nodeward_policy::home::{Home, Reason, Verdict};

/// A home, in a few letters.
pub fn home(home: &Home) -> String {
    match home {
        Home::Node(node) => node.to_string(),
        Home::Spread(nodes) => format!("{nodes} (spread)"),
        Home::Interleave { threads, memory } => format!("{threads} (memory on {memory})"),
    }
}

/// Millionths of a CPU as CPUs, with two digits.
pub fn cpus(ppm: u64) -> String {
    let hundredths = ppm.saturating_add(5_000) / 10_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// All reasons of a decision, the one for the home first.
pub fn reasons(row: &ProcessRow) -> String {
    let all = [Some(row.reason), row.threads_reason, row.memory_reason];
    let names: Vec<_> = all.into_iter().flatten().map(Reason::name).collect();
    names.join(", ")
}

/// What is done with a process, for a table.
pub fn decision(row: &ProcessRow, report: &RoundReport) -> String {
    let verdict = match row.verdict {
        Verdict::Left => "left alone",
        Verdict::Settles => "settles",
        Verdict::Stays => "stays",
        Verdict::Moves => "moves",
    };
    let mut brought = Vec::new();
    if row.numbers.threads_nudged > 0 {
        brought.push(threads(row.numbers.threads_nudged));
    }
    if row.numbers.pages_planned > 0 {
        brought.push(show_bytes(row.numbers.pages_planned * report.page_bytes));
    }
    if brought.is_empty() {
        return verdict.to_owned();
    }
    format!("{verdict}, brings {}", brought.join(", "))
}

pub(super) fn threads(count: u32) -> String {
    format!("{count} thread{}", if count == 1 { "" } else { "s" })
}

/// One line for a decision that is new; `None` for one that nobody waits for: it is too young yet,
/// or settled and now stays, with its memory at home.
pub fn changed(row: &ProcessRow, report: &RoundReport) -> Option<String> {
    let is_home = matches!(row.memory_reason, None | Some(Reason::AllHome));
    let is_quiet = row.verdict == Verdict::Stays && is_home || row.reason == Reason::TooYoung;
    let is_news = row.changed && !is_quiet;
    is_news.then(|| format!("{} ({}): {}", row.name, row.pid, sentence(row, report)))
}

fn sentence(row: &ProcessRow, report: &RoundReport) -> String {
    let at = row.home.as_ref().map(home).unwrap_or_default();
    let mut parts = vec![match row.verdict {
        Verdict::Left => format!("left alone: {}", row.reason),
        Verdict::Settles => format!("at home on {at} from now on: {}", row.reason),
        Verdict::Stays => format!("stays at home on {at}: {}", row.reason),
        Verdict::Moves => format!("home moves to {at}: {}", row.reason),
    }];
    parts.extend(about_threads(row));
    parts.extend(about_memory(row, report));
    parts.join("; ")
}

fn about_threads(row: &ProcessRow) -> Option<String> {
    let (away, brought) = (row.numbers.threads_away, row.numbers.threads_nudged);
    if away == 0 {
        return None;
    }
    let why = row.threads_reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    Some(format!("{} away, {brought} brought home{why}", threads(away)))
}

fn about_memory(row: &ProcessRow, report: &RoundReport) -> Option<String> {
    let reason = row.memory_reason.filter(|&reason| reason != Reason::AllHome)?;
    let numbers = &row.numbers;
    let bytes = |pages: u64| show_bytes(pages * report.page_bytes);
    let gain = match numbers.gain_ns {
        _ if reason == Reason::Stalled => {
            format!(", {} % of the time", numbers.stalled_ppm.unwrap_or(0) / 10_000)
        }
        0 => String::new(),
        gain => format!(", saves {} and costs {}", show_ns(gain), show_ns(numbers.cost_ns)),
    };
    Some(format!(
        "{} away, {} brought home ({reason}{gain})",
        bytes(numbers.pages_away),
        bytes(numbers.pages_planned)
    ))
}
