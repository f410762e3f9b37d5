//! Words that must not be in the repository: unfinished work, and traces of one particular machine.
//! They are assembled here, so that this file does not break its own rule.

use std::path::Path;

use super::source::RustSource;
use super::violation::Violation;

/// In code: macros and attributes of unfinished work.
const IN_CODE: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];
/// In comments: notes of unfinished work.
const IN_COMMENTS: &[&str] = &["FIXME", "XXX", "TODO"];
/// Anywhere: paths and hosts that only one machine has.
const MACHINE_TRACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/tmp/", "wt"),
    concat!("deb.deb", "ian.org"),
    concat!("helper ses", "sion"),
];

/// Checks a Rust file for unfinished work.
pub fn check_source(source: &RustSource) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (layer, words) in [(&source.layers.code, IN_CODE), (&source.layers.comments, IN_COMMENTS)] {
        for (line, word) in hits(layer, words) {
            violations.push(source.violation(line, format!("`{word}`: finish it or leave it out")));
        }
    }
    violations
}

/// Checks any text for traces of one machine.
pub fn check_text(path: &Path, text: &str) -> Vec<Violation> {
    let advice = |word| format!("`{word}` means something on one machine only; say it in general");
    let hits = hits(text, MACHINE_TRACES).into_iter();
    hits.map(|(line, word)| Violation::new(path, line, advice(word))).collect()
}

fn hits<'a>(text: &str, words: &'a [&str]) -> Vec<(usize, &'a str)> {
    let mut hits = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let found = words.iter().filter(|word| contains_word(line, word));
        hits.extend(found.map(|word| (index + 1, *word)));
    }
    hits
}

/// Returns whether the word is in the line on its own: not as the tail of a longer word or path.
pub fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | '.' | '-' | '}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Vec<String> {
        let found = check_source(&RustSource::new(Path::new("a.rs"), text));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unfinished_work_is_told_with_its_line() {
        assert_eq!(source("\ntodo!()"), ["a.rs:2: `todo!`: finish it or leave it out"]);
        assert_eq!(source("#[ignore = \"slow\"]").len(), 1);
        assert_eq!(source(concat!("// FIX", "ME later")).len(), 1);
    }

    #[test]
    fn words_about_unfinished_work_are_free_where_they_do_no_harm() {
        assert_eq!(source("let a = \"todo!\"; // a todo! in prose\nmy_todo!();"), [""; 0]);
    }

    #[test]
    fn a_path_of_one_machine_is_a_trace_and_a_longer_path_is_none() {
        let path = Path::new("a.md");
        let trace = format!("see {}x", MACHINE_TRACES[0]);
        assert_eq!(check_text(path, &trace).len(), 1);
        let longer = format!("see target{}x and $HOME{}x", MACHINE_TRACES[0], MACHINE_TRACES[0]);
        assert_eq!(check_text(path, &longer), []);
    }
}
