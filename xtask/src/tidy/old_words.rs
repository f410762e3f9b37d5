//! Private words that the code once had for things that have a name in the field. They do not come
//! back.

use super::source::RustSource;
use super::violation::Violation;

/// Words of identifiers, each with the term for what it meant.
const OLD_WORDS: &[(&str, &str)] = &[
    ("allowance", "cpu_budget"),
    ("attend", "handle_events, or monitor"),
    ("bell", "waker"),
    ("burden", "overhead"),
    ("chapter", "journal"),
    ("choked", "saturated"),
    ("coming", "round_state"),
    ("contest", "compare"),
    ("crew", "worker_pool"),
    ("curtain", "run_end"),
    ("desk", "chunk_claims"),
    ("diary", "journal"),
    ("ease", "capacity"),
    ("errand", "task"),
    ("evener", "rebalance"),
    ("everyones", "move_shared"),
    ("eye", "watcher"),
    ("fate", "outcome"),
    ("glance", "snapshot"),
    ("ground", "node_table"),
    ("haul", "memory_move"),
    ("hauler", "memory_mover"),
    ("homebody", "placement"),
    ("landing", "verify_node"),
    ("newcomer", "launch_placement"),
    ("paper", "fake_machine"),
    ("passage", "transfer_method"),
    ("patrol", "fast_round"),
    ("porter", "allocation_thread"),
    ("purse", "token_bucket"),
    ("road", "backend"),
    ("roster", "process_table, or stragglers"),
    ("seat", "folio_slot, or placement"),
    ("sheet", "fake_process"),
    ("shelf", "cache"),
    ("shop", "context"),
    ("spell", "debounce"),
    ("stranger", "unknown"),
    ("weather", "counters"),
    ("welcome", "admit_limit"),
];

/// Identifiers that programs of others may have, with an old word in them.
const KEPT_FOR_USERS: [&str; 1] = ["nodeward_pager_road"];

/// Words of a name; the names of tests are sentences, and longer.
const NAME_WORDS_MAX: usize = 4;

/// Checks identifiers of a file, of tests too: `seat`, `SeatTable`, `SEATS`, `last_seat`.
pub fn check(source: &RustSource) -> Vec<Violation> {
    let lines = source.layers.code.lines().enumerate();
    let found = lines.flat_map(|(index, line)| hits(line).map(move |hit| (index + 1, hit)));
    let violation = |(line, (name, term)): (usize, (&str, &str))| {
        source.violation(line, format!("`{name}` has a private word; the term is {term}"))
    };
    found.map(violation).collect()
}

fn hits(line: &str) -> impl Iterator<Item = (&str, &'static str)> {
    let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    names.filter(|name| !KEPT_FOR_USERS.contains(name)).filter_map(|name| Some((name, term(name)?)))
}

fn term(name: &str) -> Option<&'static str> {
    let words = words(name);
    if words.len() > NAME_WORDS_MAX {
        return None;
    }
    let is_old =
        |old: &str| words.iter().any(|word| word == old || word.strip_suffix('s') == Some(old));
    OLD_WORDS.iter().find(|(old, _)| is_old(old)).map(|(_, term)| *term)
}

/// Returns the words of a name, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        words.last_mut().expect("the first").extend(c.to_lowercase().filter(|&c| c != '_'));
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Goal: an old word is found in any case and number, alone and in a name; not in comments and
    /// strings, within a word, or in a sentence.
    #[test]
    fn old_words_are_found() {
        let text = [
            "// a seat",
            "struct SeatTable;",
            "let last_seats = \"a crew\";",
            "fn round_trip() {}",
            "fn a_page_has_a_seat_in_it() {}",
            "let nodeward_pager_road = released;",
        ];
        let found = check(&RustSource::new(Path::new("a/src/a.rs"), &text.join("\n")));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        let expected = [(2, "SeatTable"), (3, "last_seats")].map(|(line, name)| {
            let term = "folio_slot, or placement";
            format!("a/src/a.rs:{line}: `{name}` has a private word; the term is {term}")
        });
        assert_eq!(found, expected);
    }
}
