//! Output of `nodeward pcp`.

mod tuning;

use std::fmt::Write as _;

use nodeward_linux::page_lists::{self, PageListState, SelfTuning};
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_model::{PageList, ZoneLists};
use serde_json::{Value, json};

use crate::results::{ListChange, ListChanges};

pub use tuning::{advice_json, advice_text, round_json, round_line, setting_end};

const HIGH_FRACTION: &str = page_lists::HIGH_FRACTION.name;

/// Formats the lists for programs.
pub fn json(state: &PageListState, page_bytes: u64) -> Value {
    json!({
        "schema": "nodeward.pcp/1",
        "page_bytes": page_bytes,
        "self_tuning": state.self_tuning.name(),
        "high_fraction": state.high_fraction,
        "zones": state.zones,
    })
}

/// Formats the lists for people.
pub fn text(state: &PageListState, page_bytes: u64) -> String {
    let mut text = format!("{}\n{}\n\n", tuning_line(state), fraction_line(state));
    let has_bounds = |zone: &ZoneLists| zone.lists.iter().any(|l| l.high_min_pages.is_some());
    let has_bounds = state.zones.iter().any(has_bounds);
    text += "NODE ZONE      CPU    COUNT     HIGH  BATCH";
    text += if has_bounds { "      MIN      MAX\n" } else { "\n" };
    for zone in &state.zones {
        zone.lists.iter().for_each(|list| text += &list_line(zone, list, has_bounds));
    }
    let sum = |of: fn(&ZoneLists) -> u64| state.zones.iter().map(of).fold(0, u64::saturating_add);
    let (count, high) = (sum(ZoneLists::count_pages), sum(ZoneLists::high_pages));
    let bytes = |pages: u64| format_bytes(pages.saturating_mul(page_bytes));
    let _ = writeln!(
        text,
        "\n{count} pages ({}) are in lists; {high} ({}) may be",
        bytes(count),
        bytes(high)
    );
    text
}

/// Says who sets the length of lists.
pub fn tuning_line(state: &PageListState) -> String {
    match state.self_tuning {
        SelfTuning::Absent => "This kernel does not tune its page lists (6.7 and newer do).".into(),
        SelfTuning::Active => "This kernel tunes its page lists itself (6.7 and newer do).".into(),
        SelfTuning::Fixed => format!(
            "This kernel would tune its page lists itself (6.7 and newer do), but {HIGH_FRACTION} \
             fixes their length."
        ),
    }
}

fn fraction_line(state: &PageListState) -> String {
    match state.high_fraction {
        None => {
            format!("{HIGH_FRACTION}: this kernel has no such setting (5.14 and newer have it).")
        }
        Some(0) => format!("{HIGH_FRACTION} is 0: the kernel chooses the length of lists."),
        Some(fraction) => {
            format!(
                "{HIGH_FRACTION} is {fraction}: the lists of a zone may hold 1/{fraction} of it."
            )
        }
    }
}

fn list_line(zone: &ZoneLists, list: &PageList, has_bounds: bool) -> String {
    let mut line = format!(
        "{:>4} {:<8} {:>4} {:>8} {:>8} {:>6}",
        zone.node, zone.zone, list.cpu, list.count_pages, list.high_pages, list.batch_pages
    );
    if has_bounds {
        let bound = |pages: Option<u64>| pages.map_or_else(|| "?".to_owned(), |it| it.to_string());
        let (min, max) = (bound(list.high_min_pages), bound(list.high_max_pages));
        let _ = write!(line, " {min:>8} {max:>8}");
    }
    line + "\n"
}

/// Formats changes for programs, in one line. `round` counts from 1.
pub fn changes_json(changes: &ListChanges<'_>, round: u64, page_bytes: u64) -> Value {
    let mut value = json!(changes);
    value["schema"] = json!("nodeward.pcp-watch/1");
    value["round"] = json!(round);
    value["page_bytes"] = json!(page_bytes);
    value
}

/// Formats changes for people: a line for the machine, and one for each list that changed.
pub fn changes_text(changes: &ListChanges<'_>, page_bytes: u64) -> String {
    let (pages, change) = changes.in_lists_pages();
    let mut text = format!(
        "in {}: {} pages allocated, {} freed; {} pages ({}) in lists, {change:+}\n",
        format_ns(changes.elapsed_ns),
        changes.allocated_pages,
        changes.freed_pages,
        pages,
        format_bytes(pages.saturating_mul(page_bytes)),
    );
    let mut changed = changes.lists.iter().filter(|list| list.is_change()).peekable();
    if changed.peek().is_some() {
        text += "NODE ZONE      CPU    COUNT   CHANGE     HIGH   CHANGE\n";
    }
    changed.for_each(|list| text += &change_line(list));
    for gone in &changes.gone {
        let _ = writeln!(text, "{:>4} {:<8} {:>4} went offline", gone.node, gone.zone, gone.cpu);
    }
    text
}

fn change_line(change: &ListChange<'_>) -> String {
    let by = |pages: Option<i64>| pages.map_or_else(|| "new".to_owned(), |it| format!("{it:+}"));
    let list = &change.list;
    format!(
        "{:>4} {:<8} {:>4} {:>8} {:>8} {:>8} {:>8}\n",
        change.node,
        change.zone,
        list.cpu,
        list.count_pages,
        by(change.count_change_pages),
        list.high_pages,
        by(change.high_change_pages),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::test_lists::{list, look, zone};

    fn state(high_fraction: Option<u32>, self_tuning: SelfTuning) -> PageListState {
        let mut zones = vec![
            zone(0, "DMA32", vec![list(0, 0, 6852), list(1, 1548, 6852)]),
            zone(1, "Normal", vec![list(0, 272, 6852), list(1, 12, 6852)]),
        ];
        if self_tuning != SelfTuning::Absent {
            let lists = zones.iter_mut().flat_map(|zone| &mut zone.lists);
            lists.for_each(|list| {
                (list.high_min_pages, list.high_max_pages) = (Some(6852), Some(30_531));
            });
        }
        PageListState { zones, high_fraction, self_tuning }
    }

    /// Goal: an old kernel has no bounds, and its setting is told as missing, not as 0.
    #[test]
    fn lists_of_old_kernels() {
        insta::assert_snapshot!("5-10", text(&state(None, SelfTuning::Absent), 4096));
        insta::assert_snapshot!("6-1", text(&state(Some(64), SelfTuning::Absent), 4096));
    }

    /// Goal: a kernel that tunes says so, with its bounds, also if a setting fixes them.
    #[test]
    fn lists_of_kernels_that_tune() {
        insta::assert_snapshot!("tuned", text(&state(Some(0), SelfTuning::Active), 4096));
        insta::assert_snapshot!("fixed", text(&state(Some(8), SelfTuning::Fixed), 4096));
    }

    /// Goal: the JSON keeps its shape; what a kernel does not tell is null.
    #[test]
    fn lists_for_programs() {
        let mut state = state(None, SelfTuning::Absent);
        state.zones.truncate(1);
        state.zones[0].lists.truncate(1);
        let value = json(&state, 4096);
        insta::assert_snapshot!("json", serde_json::to_string_pretty(&value).unwrap());
    }

    /// Goal: of a round people see the lists that changed, came and went; programs see all.
    #[test]
    fn changes() {
        let lists = |first, second| vec![zone(0, "Normal", vec![first, second, list(5, 3, 378)])];
        let before = look(0, 1_000, lists(list(0, 10, 378), list(1, 5, 378)));
        let now = look(1_000_000_000, 51_000, lists(list(0, 70, 370), list(2, 7, 378)));
        let changes = ListChanges::between(&before, &now);
        insta::assert_snapshot!("changes", changes_text(&changes, 4096));
        let value = changes_json(&changes, 3, 4096);
        insta::assert_snapshot!("changes_json", serde_json::to_string_pretty(&value).unwrap());
        let quiet = ListChanges::between(&now, &now);
        insta::assert_snapshot!("no_changes", changes_text(&quiet, 4096));
    }
}
