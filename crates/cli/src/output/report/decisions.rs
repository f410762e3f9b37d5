//! What a balancer that runs here decided meanwhile.

use nodeward_model::NodeId;

use super::blocks::{begin_section, cell, number, paragraph, table, words};
use super::markup::Element;
use super::scale::clock;
use crate::results::observation::{AgentDecision, DecisionChange, WatchReport};

/// Changes with a row of their own, the latest ones.
const ROWS_MAX: usize = 60;

/// Formats the section; there is none without a balancer.
pub fn section(seen: &WatchReport) -> Option<Element> {
    // What could not be seen says why.
    let decisions = seen.decisions.as_ref().filter(|it| it.obstacle.is_none())?;
    let section = begin_section("What the running balancer decided");
    let homes = match decisions.last.len() {
        1 => "One process had a home".to_owned(),
        count => format!("{count} processes had a home"),
    };
    let back = if decisions.stands_back { " It stood back: it did nothing of this." } else { "" };
    let section = section.child(paragraph(format!("{homes} when it was asked last.{back}")));
    if decisions.changes.is_empty() {
        return Some(section.child(paragraph("No decision was seen to change.")));
    }
    let columns = [
        ("seen after", true),
        ("process", false),
        ("home", false),
        ("verdict", false),
        ("reasons", false),
    ];
    let hidden = decisions.changes.len().saturating_sub(ROWS_MAX);
    let left_out = hidden as u64 + decisions.left_out;
    let note = (left_out > 0).then(|| paragraph(format!("{left_out} other changes are left out.")));
    let rows = decisions.changes.iter().skip(hidden).map(row).collect();
    Some(section.child(table(&columns, rows)).children(note))
}

fn row(change: &DecisionChange) -> Vec<Element> {
    let decision = &change.decision;
    vec![
        number(clock(change.at_ns)),
        words(format!("{} ({})", name(decision), decision.pid)),
        cell(decision.home.as_deref().map_or_else(|| "none".to_owned(), nodes)),
        cell(&decision.verdict),
        words(reasons(decision).join(", ")),
    ]
}

fn name(decision: &AgentDecision) -> String {
    nodeward_model::Escape::escaped(decision.name.as_str()).to_string()
}

fn nodes(home: &[NodeId]) -> String {
    home.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the reasons of a decision, the one for the home first.
pub fn reasons(decision: &AgentDecision) -> Vec<&str> {
    let more = [&decision.threads_reason, &decision.memory_reason];
    let more = more.into_iter().filter_map(Option::as_deref);
    std::iter::once(decision.reason.as_str()).chain(more).collect()
}
