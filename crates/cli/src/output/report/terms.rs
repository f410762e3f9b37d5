//! What the reasons on the page mean.

use std::collections::BTreeSet;

use nodeward_model::SkipReason;
use nodeward_policy::placement::{Decision, Reason};
use nodeward_records::ledger::OperationState;

use super::blocks::{begin_section, paragraph};
use super::decisions::reasons;
use super::markup::{Element, element};
use crate::results::observation::WatchReport;

/// Formats the section: a line for each reason that the page has.
pub fn section(seen: &WatchReport) -> Option<Element> {
    let mut terms: BTreeSet<(&str, &str)> = BTreeSet::new();
    let named = told(seen);
    let known = Reason::ALL.iter().filter(|reason| named.contains(reason.name()));
    terms.extend(known.map(|reason| (reason.name(), reason.advice())));
    terms.extend(skipped(seen).map(|reason| (reason.name(), reason.advice())));
    let term =
        |(name, advice): (&str, &str)| [element("dt").text(name), element("dd").text(advice)];
    let list = element("dl").class("terms").children(terms.iter().copied().flat_map(term));
    let more = paragraph("nodeward explain REASON tells more of each.").class("note");
    (!terms.is_empty()).then(|| begin_section("What the reasons mean").child(list).child(more))
}

/// The reasons of moves, of decisions, and of what the balancer would do.
fn told(seen: &WatchReport) -> BTreeSet<&str> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let causes = seen.moves.iter().filter_map(|it| it.cause.as_ref());
    names.extend(causes.map(|cause| cause.reason.as_str()));
    names.extend(
        seen.decisions.iter().flat_map(|it| &it.changes).flat_map(|it| reasons(&it.decision)),
    );
    let estimated = seen.estimate.iter().flat_map(|report| &report.processes);
    estimated.flat_map(|row| of_decision(&row.decision)).for_each(|name| {
        names.insert(name);
    });
    names
}

fn of_decision(decision: &Decision) -> impl Iterator<Item = &'static str> {
    let all = [Some(decision.reason), decision.threads, decision.memory];
    all.into_iter().flatten().map(Reason::name)
}

fn skipped(seen: &WatchReport) -> impl Iterator<Item = SkipReason> {
    let ended = seen.moves.iter().filter_map(|operation| match &operation.state {
        OperationState::Ended(end) => Some(end),
        _ => None,
    });
    ended.flat_map(|end| end.account.skipped.keys().copied())
}
