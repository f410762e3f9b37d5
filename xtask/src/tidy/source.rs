//! A Rust file as the rules see it, and the rules about files as a whole.

use std::path::{Path, PathBuf};

use super::layers::{Layers, layers};
use super::violation::Violation;

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 500;

/// A Rust file with its layers and the lines that are tests.
#[derive(Debug)]
pub struct RustSource {
    pub path: PathBuf,
    pub text: String,
    pub layers: Layers,
    /// For each line, whether it is compiled only for tests.
    pub is_test: Vec<bool>,
}

impl RustSource {
    /// Returns the file, if it is Rust.
    pub fn of((path, text): &(PathBuf, String)) -> Option<RustSource> {
        (path.extension()? == "rs").then(|| RustSource::new(path, text))
    }

    /// Creates a file of the given content.
    pub fn new(path: &Path, text: &str) -> RustSource {
        let layers = layers(text);
        let is_test = if is_test_file(path) {
            vec![true; text.lines().count()]
        } else {
            test_lines(&layers.code)
        };
        RustSource { path: path.to_path_buf(), text: text.to_owned(), layers, is_test }
    }

    /// Returns the lines of a layer that ship, with their numbers from one.
    pub fn shipped_lines<'a>(&'a self, layer: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let ships = |index: &usize| !self.is_test.get(*index).copied().unwrap_or(false);
        let numbered = layer.lines().enumerate().filter(move |(index, _)| ships(index));
        numbered.map(|(index, line)| (index + 1, line))
    }

    /// Returns whether the file is in this directory of the repository.
    pub fn is_in(&self, dir: &str) -> bool {
        self.path.starts_with(dir)
    }

    pub fn violation(&self, line: usize, advice: impl Into<String>) -> Violation {
        Violation::new(&self.path, line, advice)
    }
}

/// Checks the rules about the file as a whole.
pub fn check(source: &RustSource) -> Vec<Violation> {
    let mut violations = check_columns(source);
    violations.extend(check_length(source));
    violations.extend(check_header(source));
    violations.extend(check_name(source));
    violations
}

fn check_columns(source: &RustSource) -> Vec<Violation> {
    let lines = source.text.lines().enumerate();
    let long = lines.map(|(index, line)| (index + 1, line.chars().count()));
    let long = long.filter(|(_, columns)| *columns > COLUMNS_MAX);
    let advice = |columns| format!("{columns} columns; break the line at {COLUMNS_MAX}");
    long.map(|(line, columns)| source.violation(line, advice(columns))).collect()
}

fn check_length(source: &RustSource) -> Option<Violation> {
    let lines = source.shipped_lines(&source.text).count();
    let advice = || format!("{lines} lines that are not tests, over {LINES_MAX}; split the module");
    (lines > LINES_MAX).then(|| source.violation(0, advice()))
}

fn check_header(source: &RustSource) -> Option<Violation> {
    let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let missing = !first.starts_with("//!");
    missing.then(|| source.violation(1, "begin with `//!`: what the module is for"))
}

fn check_name(source: &RustSource) -> Option<Violation> {
    let vague = ["util", "utils", "helper", "helpers", "misc"];
    let mut parts = source.path.with_extension("").into_os_string().into_string().ok()?;
    parts.make_ascii_lowercase();
    let is_vague = parts.split('/').any(|part| vague.contains(&part));
    is_vague.then(|| source.violation(0, "name the module after what it does"))
}

fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_stem().is_some_and(|stem| stem == "tests")
}

/// Marks each `#[cfg(test)]` item up to the end of its block.
fn test_lines(code: &str) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut marks = vec![false; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        let end = if lines[at].trim_start().starts_with("#[cfg(test)]") {
            item_end(&lines, at)
        } else {
            at + 1
        };
        let is_test = lines[at].trim_start().starts_with("#[cfg(test)]");
        marks[at..end].fill(is_test);
        at = end;
    }
    marks
}

/// Returns the line after the item that begins here: after its block, or after its semicolon.
pub fn item_end(lines: &[&str], start: usize) -> usize {
    let mut depth = 0usize;
    for (index, line) in lines.iter().enumerate().skip(start) {
        for c in line.chars() {
            match c {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && matches!(c, '}' | ';') {
                return index + 1;
            }
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(path: &str, text: &str) -> Vec<String> {
        let found = check(&RustSource::new(Path::new(path), text));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_short_file_with_a_header_is_fine() {
        assert_eq!(advice("a.rs", "//! A.\nfn f() {}\n"), [""; 0]);
    }

    #[test]
    fn a_module_says_what_it_is_for_and_is_named_so() {
        assert_eq!(
            advice("a.rs", "fn f() {}\n"),
            ["a.rs:1: begin with `//!`: what the module is for"]
        );
        let vague = advice("a/utils.rs", "//! A.\n");
        assert_eq!(vague, ["a/utils.rs: name the module after what it does"]);
    }

    #[test]
    fn a_hundred_columns_are_fine_and_one_more_is_not() {
        let text = format!("//! {}\n//! {}\n", "é".repeat(96), "x".repeat(97));
        assert_eq!(advice("a.rs", &text), ["a.rs:2: 101 columns; break the line at 100"]);
    }

    #[test]
    fn tests_do_not_count_towards_the_length_of_a_file() {
        let header = "//! A.\n";
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    f!();\n".repeat(600));
        assert_eq!(advice("a.rs", &format!("{header}{tests}")), [""; 0]);
        let long = "const A: u8 = 0;\n".repeat(500);
        assert_eq!(advice("a.rs", &format!("{header}{long}{tests}")).len(), 1);
        assert_eq!(advice("tests/a.rs", &format!("{header}{long}")), [""; 0]);
    }

    #[test]
    fn code_after_the_tests_ships() {
        let text = "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nfn g() {}\n";
        let source = RustSource::new(Path::new("a.rs"), text);
        assert_eq!(source.is_test, [true, true, true, true, false]);
        let source = RustSource::new(Path::new("a.rs"), "#[cfg(test)]\nmod tests;\nfn g() {}\n");
        assert_eq!(source.is_test, [true, true, false]);
    }
}
