//! What moved meanwhile: by nodeward, as the ledger has it, and by others, as the kernel counts it.

use nodeward_model::NodeId;
use nodeward_model::units::format_bytes;
use nodeward_records::ledger::{Operation, OperationState};

use super::blocks::{begin_section, cell, legend, number, paragraph, table, words};
use super::chart::{ChartMark, ChartPoint, Shape, TimeChart};
use super::markup::{Element, element};
use super::scale::{Quantity, clock};
use crate::output::ledger;
use crate::results::observation::{WatchMoment, WatchReport};

/// Moves with a row of their own; further ones are summed.
const ROWS_MAX: usize = 50;

/// The moves of an observation.
pub struct MovedMemory<'a> {
    /// Those of the process that was watched, or all of them, the earliest first.
    shown: Vec<&'a Operation>,
    /// Marks of the charts, one for each of them.
    pub marks: Vec<ChartMark>,
    /// Bytes that moved in them.
    pub shown_bytes: u64,
    /// Bytes that moved in all moves of the ledger.
    all_bytes: u64,
}

impl<'a> MovedMemory<'a> {
    /// Returns those that are shown.
    pub fn of(seen: &'a WatchReport) -> Self {
        let mut shown: Vec<_> = seen.moves.iter().filter(|it| is_of_subject(seen, it)).collect();
        shown.sort_by_key(|operation| (operation.header.began_unix_ms, operation.id));
        let numbered = (1..).zip(&shown).take(ROWS_MAX);
        let marks = numbered.map(|(number, it)| mark(seen, number, it)).collect();
        let bytes = |moves: &mut dyn Iterator<Item = &Operation>| moves.map(moved_bytes).sum();
        Self {
            marks,
            shown_bytes: bytes(&mut shown.iter().copied()),
            all_bytes: bytes(&mut seen.moves.iter()),
            shown,
        }
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.shown.len()
    }

    /// Returns the bytes that others moved, as far as the kernel counts them.
    pub fn others_bytes(&self, seen: &WatchReport) -> Option<u64> {
        Some(counted_bytes(seen, |it| it.migrated_pages)?.saturating_sub(self.all_bytes))
    }

    /// Formats the section.
    pub fn section(&self, seen: &WatchReport) -> Option<Element> {
        let section = begin_section("What moved, and why").child(paragraph(self.by_nodeward(seen)));
        let listed = (!self.shown.is_empty()).then(|| self.table(seen));
        let rate = seen.moments.iter().any(|it| it.migrated_pages.is_some_and(|pages| pages > 0));
        let rate = rate.then(|| self.rate(seen));
        let rate = rate.iter().flat_map(|it| [legend(&it.bands), it.figure()]);
        let by_others = paragraph(self.by_others(seen));
        Some(section.children(listed).child(by_others).children(rate))
    }

    fn by_nodeward(&self, seen: &WatchReport) -> String {
        let whose = if seen.subject.is_some() { " of this process" } else { "" };
        match self.shown.len() {
            0 => format!("The ledger has no move{whose} from this time."),
            1 => format!(
                "nodeward moved {} in one move{whose}; its number is in the charts.",
                format_bytes(self.shown_bytes)
            ),
            count => format!(
                "nodeward moved {} in {count} moves{whose}; their numbers are in the charts.",
                format_bytes(self.shown_bytes)
            ),
        }
    }

    fn by_others(&self, seen: &WatchReport) -> String {
        let Some(counted) = counted_bytes(seen, |it| it.migrated_pages) else {
            return "What others moved is not known: this machine does not count it.".to_owned();
        };
        if counted == 0 {
            return "The kernel counted no page that was migrated on the whole machine.".to_owned();
        }
        let others = format_bytes(counted.saturating_sub(self.all_bytes));
        let balancing = match counted_bytes(seen, |it| it.balancing_pages) {
            Some(bytes) => format!("; its NUMA balancing moved {} of it", format_bytes(bytes)),
            None => String::new(),
        };
        format!(
            "The kernel counted {} that was migrated on the whole machine{balancing}. The ledger \
             explains {} of it, which leaves about {others} to others: the kernel, other programs, \
             and moves of other users' ledgers. Migrations within a node count, too.",
            format_bytes(counted),
            format_bytes(self.all_bytes.min(counted)),
        )
    }

    fn table(&self, seen: &WatchReport) -> Element {
        let columns = [
            ("no.", true),
            ("began", true),
            ("ended", true),
            ("moved", true),
            ("from and to", false),
            ("by, and why", false),
            ("stayed", false),
        ];
        let numbered = (1..).zip(&self.shown).take(ROWS_MAX);
        let mut rows: Vec<_> = numbered.map(|(index, it)| row(seen, index, it)).collect();
        if let Some(rest) = self.shown.get(ROWS_MAX..).filter(|rest| !rest.is_empty()) {
            let bytes = rest.iter().map(|it| moved_bytes(it)).sum();
            let what = format!("{} further moves", rest.len());
            let mut cells = vec![cell(""), cell(""), cell(""), number(format_bytes(bytes))];
            cells.extend([words(what), cell(""), cell("")]);
            rows.push(cells);
        }
        table(&columns, rows)
    }

    fn rate(&self, seen: &WatchReport) -> TimeChart<'_> {
        let rate = |(before, now): (&WatchMoment, &WatchMoment)| -> ChartPoint {
            let per_s = |pages: u64| {
                let bytes =
                    u128::from(pages) * u128::from(seen.topology.page_bytes) * 1_000_000_000;
                let took = now.at_ns.saturating_sub(before.at_ns).max(1);
                u64::try_from(bytes / u128::from(took)).unwrap_or(u64::MAX)
            };
            let all = now.migrated_pages.map(per_s);
            let balancing = now.balancing_pages.map_or(0, per_s);
            (now.at_ns, all.map(|all| vec![balancing.min(all), all.saturating_sub(balancing)]))
        };
        let steps = seen.moments.iter().zip(seen.moments.iter().skip(1));
        TimeChart {
            id: "migrated".to_owned(),
            title: "memory that migrated, by the kernel's NUMA balancing and by all other movers"
                .to_owned(),
            quantity: Quantity::BytesPerSecond,
            shape: Shape::Stacked,
            bands: vec![
                ("the kernel's NUMA balancing".to_owned(), "n1"),
                ("all other movers".to_owned(), "n0"),
            ],
            points: steps.map(rate).collect(),
            end_ns: seen.watched_ns,
            is_small: false,
            marks: &self.marks,
        }
    }
}

fn is_of_subject(seen: &WatchReport, operation: &Operation) -> bool {
    let Some(subject) = seen.process() else { return seen.subject.is_none() };
    let mut processes = operation.header.processes.iter();
    processes.any(|it| (it.pid, it.started_ticks) == (subject.pid, subject.started_ticks))
}

fn moved_bytes(operation: &Operation) -> u64 {
    operation.moved_pages().saturating_mul(operation.header.page_bytes)
}

/// Returns the sum of what the kernel counted since the beginning, in bytes.
fn counted_bytes(seen: &WatchReport, of: fn(&WatchMoment) -> Option<u64>) -> Option<u64> {
    let counts: Vec<u64> = seen.moments.iter().filter_map(of).collect();
    (!counts.is_empty())
        .then(|| counts.iter().sum::<u64>().saturating_mul(seen.topology.page_bytes))
}

/// Returns the time of a move since the beginning; a move may have begun before.
fn since_ns(seen: &WatchReport, unix_ms: u64) -> Option<u64> {
    Some(unix_ms.checked_sub(seen.began_unix_ms)?.saturating_mul(1_000_000))
}

fn mark(seen: &WatchReport, number: usize, operation: &Operation) -> ChartMark {
    let began_ns = since_ns(seen, operation.header.began_unix_ms).unwrap_or(0);
    let ended_ns = match &operation.state {
        OperationState::Ended(end) => since_ns(seen, end.ended_unix_ms).unwrap_or(0),
        OperationState::Running => seen.watched_ns,
        OperationState::Interrupted => began_ns,
    };
    let began_ns = began_ns.min(seen.watched_ns);
    let title = format!("{} moved", format_bytes(moved_bytes(operation)));
    ChartMark { span_ns: (began_ns, ended_ns.clamp(began_ns, seen.watched_ns)), number, title }
}

fn row(seen: &WatchReport, index: usize, operation: &Operation) -> Vec<Element> {
    let when = |unix_ms: u64| match since_ns(seen, unix_ms) {
        Some(ns) => clock(ns),
        None => "before".to_owned(),
    };
    let ended = match &operation.state {
        OperationState::Ended(end) => when(end.ended_unix_ms),
        state => ledger::state_name(state).to_owned(),
    };
    vec![
        number(index),
        number(when(operation.header.began_unix_ms)),
        number(ended),
        number(format_bytes(moved_bytes(operation))),
        words(flows(operation)),
        why(operation),
        words(stayed(operation)),
    ]
}

fn flows(operation: &Operation) -> String {
    let moved = operation.processes.iter().map(|process| &process.moved);
    let mut pages = std::collections::BTreeMap::<(NodeId, NodeId), u64>::new();
    for ((from, to), (count, _)) in moved.flat_map(ledger::by_pair) {
        *pages.entry((from, to)).or_default() += count;
    }
    let flow = |((from, to), pages): ((NodeId, NodeId), u64)| {
        let bytes = format_bytes(pages.saturating_mul(operation.header.page_bytes));
        format!("node {from} to {to}: {bytes}")
    };
    pages.into_iter().map(flow).collect::<Vec<_>>().join(", ")
}

fn why(operation: &Operation) -> Element {
    let names = operation.header.processes.iter().map(|it| format!("{} ({})", it.name, it.pid));
    let names = names.collect::<Vec<_>>().join(", ");
    match &operation.cause {
        Some(cause) => words(format!(
            "{}: {} ({}): {}",
            names, cause.reason, cause.requested_by, cause.explanation
        )),
        None => {
            let command = element("code").text(ledger::command(&operation.header));
            cell("").class("words").text(format!("{names}: ")).child(command)
        }
    }
}

fn stayed(operation: &Operation) -> String {
    let OperationState::Ended(end) = &operation.state else { return "not known".to_owned() };
    let skipped = end.account.skipped.iter().map(|(reason, pages)| {
        let bytes = format_bytes(pages.saturating_mul(operation.header.page_bytes));
        format!("{bytes} {}", reason.name())
    });
    let skipped: Vec<_> = skipped.collect();
    if skipped.is_empty() { "nothing".to_owned() } else { skipped.join(", ") }
}
