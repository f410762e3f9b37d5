//! Output of `nodeward sim swarm`: what checkers found, as text and as JSON.

use std::fmt::Write as _;
use std::ops::Range;

use nodeward_experiments::swarm::SwarmSummary;
use nodeward_experiments::swarm::check::CheckFinding;
use nodeward_model::units::format_ns;
use serde_json::{Value, json};

/// Maximum number of listed findings; more are counted.
const FINDINGS_TOLD: usize = 20;

/// A swarm's results, and how it was run.
pub struct SwarmOutput<'a> {
    /// The results of the cases.
    pub summary: &'a SwarmSummary,
    /// The seeds of the cases.
    pub seeds: Range<u64>,
    /// Wall time, in nanoseconds.
    pub wall_ns: u64,
    /// The planted bug, by its name.
    pub bug: Option<&'a str>,
}

impl SwarmOutput<'_> {
    /// Returns the command that runs a seed again.
    fn replay(&self, seed: u64) -> String {
        let bug = self.bug.map(|name| format!(" --bug {name}")).unwrap_or_default();
        format!("nodeward sim swarm --seed {seed}{bug}")
    }

    fn finding(&self, seed: u64, finding: &CheckFinding) -> String {
        let (checker, at) = (finding.checker.name(), format_ns(finding.at_ns));
        format!("seed {seed}, {checker}, at {at}: {}\n    {}\n", finding.problem, self.replay(seed))
    }
}

/// Formats it for people.
pub fn text(told: &SwarmOutput<'_>) -> String {
    let SwarmSummary { cases, findings, event_counts: happened, cases_by_rounds: rounds } =
        told.summary;
    let (first, last) = (told.seeds.start, told.seeds.end.saturating_sub(1));
    let many = if findings.is_empty() { "none".to_owned() } else { findings.len().to_string() };
    let took = format_ns(told.wall_ns);
    let mut text = format!("{cases} of seeds {first} to {last} in {took}; with findings: {many}\n");
    for (seed, finding) in findings.iter().take(FINDINGS_TOLD) {
        text += "\n";
        text += &told.finding(*seed, finding);
    }
    if let Some(more @ 1..) = findings.len().checked_sub(FINDINGS_TOLD) {
        let _ = write!(text, "\n... and {more} more\n");
    }
    text += "\nWhat happened\n";
    let width = happened.iter().map(|(_, count)| count.to_string().len()).max().unwrap_or(1);
    for (what, count) in happened.iter() {
        let _ = writeln!(text, "  {count:>width$}  {what}");
    }
    for (rounds, cases) in rounds {
        let plural = if *rounds == 1 { "" } else { "s" };
        let _ = writeln!(text, "  {cases:>width$}  cases in place after {rounds} round{plural}");
    }
    text
}

/// Formats it for programs.
pub fn json(told: &SwarmOutput<'_>) -> Value {
    let SwarmSummary { cases, findings, event_counts: happened, cases_by_rounds: rounds } =
        told.summary;
    let finding = |(&seed, finding): (&u64, &CheckFinding)| {
        json!({
            "seed": seed,
            "checker": finding.checker.name(),
            "at_ns": finding.at_ns,
            "what": finding.problem,
            "replay": told.replay(seed),
        })
    };
    let happened = happened.iter().map(|(what, count)| (what.to_owned(), json!(count)));
    json!({
        "schema": "nodeward.swarm/1",
        "from": told.seeds.start,
        "cases": cases,
        "wall_ns": told.wall_ns,
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "happened": happened.collect::<serde_json::Map<_, _>>(),
        "rounds": rounds,
    })
}

#[cfg(test)]
mod tests {
    use nodeward_experiments::swarm::check::Checker;

    use super::*;

    /// Goal: a finding is shown with its checker, its time, and the command that reproduces it, bug
    /// included.
    #[test]
    fn a_finding_can_be_replayed() {
        let mut summary = SwarmSummary { cases: 10, ..SwarmSummary::default() };
        let what = "a page is lost".to_owned();
        let finding = CheckFinding { checker: Checker::Pages, at_ns: 1_500_000, problem: what };
        summary.findings.insert(7, finding);
        summary.event_counts.add("rounds", 3);
        summary.cases_by_rounds.insert(2, 9);
        let told =
            |bug| SwarmOutput { summary: &summary, seeds: 5..15, wall_ns: 2_000_000_000, bug };
        let text = text(&told(None));
        assert_eq!(
            text,
            "10 of seeds 5 to 14 in 2.00 s; with findings: 1\n\n\
             seed 7, pages, at 1.50 ms: a page is lost\n    nodeward sim swarm --seed 7\n\n\
             What happened\n  3  rounds\n  9  cases in place after 2 rounds\n"
        );
        let json = json(&told(Some("lose-page")));
        let replay = "nodeward sim swarm --seed 7 --bug lose-page";
        assert_eq!(json["findings"][0]["replay"], replay);
        assert_eq!(json["rounds"]["2"], 9);
    }
}
