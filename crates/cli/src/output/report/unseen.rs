//! What could not be seen, and why.

use super::blocks::{begin_section, paragraph};
use super::markup::{Element, element};
use crate::output::balance::notices;
use crate::results::observation::WatchReport;

/// Formats the section.
pub fn section(seen: &WatchReport) -> Option<Element> {
    let list = |lines: Vec<String>| {
        element("ul").children(lines.into_iter().map(|line| element("li").text(line)))
    };
    let unseen = seen.unseen.iter().map(|it| format!("{}: {}", it.what, it.why));
    let rivals = seen.estimate.iter().flat_map(|report| &report.rivals);
    let rivals =
        rivals.map(|rival| format!("{} balances here, too", notices::balancer_name(rival)));
    let lines: Vec<String> = std::iter::once(accesses(seen)).chain(unseen).chain(rivals).collect();
    let section = begin_section("What could not be seen, and why").child(list(lines));
    let sources: Vec<_> = seen
        .access_sources
        .iter()
        .map(|source| match &source.obstacle {
            None => format!("{}: works here; blind to {}", source.kind, source.blind_to),
            Some(obstacle) => format!("{}: {obstacle}", source.kind),
        })
        .collect();
    if sources.is_empty() {
        return Some(section);
    }
    let words = "Sources of accesses of this machine:";
    Some(section.child(paragraph(words).class("note")).child(list(sources).class("note")))
}

fn accesses(seen: &WatchReport) -> String {
    let which = "which thread uses which page: locality here is by residency";
    match seen.estimate.as_ref().and_then(|report| report.access_source) {
        Some(source) => format!(
            "{which}; for processes that are wider than a node the balancer's estimate also \
             observed accesses ({source})"
        ),
        None => format!("{which}, and no source of accesses was open"),
    }
}
