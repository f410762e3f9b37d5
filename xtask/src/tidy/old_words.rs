//! Private words that the code once had for things that have a name in the field. They do not come
//! back.

use super::source::RustSource;
use super::violation::Violation;

/// Identifiers, each with the term for what it meant.
const OLD_WORDS: &[(&str, &str)] = &[
    ("crew", "worker_pool"),
    ("desk", "chunk_claims"),
    ("errands", "tasks"),
    ("glance", "snapshot"),
    ("haul", "memory_move"),
    ("homebody", "placement"),
    ("passage", "transfer_method"),
    ("patrol", "fast_round"),
    ("porter", "allocation_thread"),
    ("purse", "token_bucket"),
    ("roster", "process_table, or stragglers"),
    ("seat", "folio_slot, or placement"),
    ("sheet", "fake_process"),
    ("shelf", "cache"),
    ("shop", "context"),
    ("spoils", "result"),
    ("stranger", "unknown"),
    ("weather", "counters"),
];

/// Checks identifiers of a file, of tests too: `seat`, `Seat`, `SEAT`, `seats`.
pub fn check(source: &RustSource) -> Vec<Violation> {
    let lines = source.layers.code.lines().enumerate();
    let found = lines.flat_map(|(index, line)| hits(line).map(move |hit| (index + 1, hit)));
    let violation = |(line, (word, term)): (usize, (&str, &str))| {
        source.violation(line, format!("`{word}` is a private word; the term is {term}"))
    };
    found.map(violation).collect()
}

fn hits(line: &str) -> impl Iterator<Item = (&str, &'static str)> {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter_map(|word| Some((word, term(word)?)))
}

fn term(word: &str) -> Option<&'static str> {
    let lower = word.to_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    let is_it = |old: &str| old == lower || old == singular;
    OLD_WORDS.iter().find(|(old, _)| is_it(old)).map(|(_, term)| *term)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Goal: an old word is found in any case and number, alone; not in comments and strings, and
    /// not in a longer name.
    #[test]
    fn old_words_are_found() {
        let text = "// a seat\nstruct Seat;\nlet seats = \"a crew\";\nfn round_trip() {}\n";
        let found = check(&RustSource::new(Path::new("a/src/a.rs"), text));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        let expected = [(2, "Seat"), (3, "seats")].map(|(line, word)| {
            let term = "folio_slot, or placement";
            format!("a/src/a.rs:{line}: `{word}` is a private word; the term is {term}")
        });
        assert_eq!(found, expected);
    }
}
