//! Rules for documents: required references in the main ones, maximum lengths of documents and
//! lines.

use std::path::Path;

use super::markdown::Document;
use super::violation::Violation;

/// Maximum length of a line of prose, in columns.
const COLUMNS_MAX: usize = 120;

/// Documents that are read as a whole, with their maximum size in bytes.
const BYTES_MAX: [(&str, usize); 2] = [("README.md", 10_000), ("ARCHITECTURE.md", 20_000)];

/// Returns whether a file is for people who use nodeward or work on it, and so subject to the rules
/// for documents.
pub fn is_document(path: &Path) -> bool {
    let first = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SPEC.md", "CHANGELOG.md"];
    let is_page = path.starts_with("docs") && path.extension().is_some_and(|end| end == "md");
    is_page || first.iter().any(|name| path == Path::new(name))
}

/// Checks that a document is not too long to be read as a whole.
pub fn check_size(path: &Path, text: &str) -> Option<Violation> {
    let (_, most) = BYTES_MAX.into_iter().find(|(name, _)| path == Path::new(name))?;
    let advice = || format!("{} bytes, over {most}; move details to docs/", text.len());
    (text.len() > most).then(|| Violation::new(path, 0, advice()))
}

/// Checks that lines of prose and of code fit a screen. A table, also one that a program prints,
/// has the columns that it needs.
pub fn check_columns(document: &Document<'_>) -> Vec<Violation> {
    let columns = document.outside_tables().map(|(number, line)| (number, line.chars().count()));
    let long = columns.filter(|(_, columns)| *columns > COLUMNS_MAX);
    let advice = |columns| format!("{columns} columns; break the line at {COLUMNS_MAX}");
    long.map(|(number, columns)| Violation::new(document.path, number, advice(columns))).collect()
}

/// Checks that the map in ARCHITECTURE.md has a line for every member of the workspace.
pub fn check_map(text: Option<&str>, dirs: &[&Path]) -> Vec<Violation> {
    let path = Path::new("ARCHITECTURE.md");
    let Some(text) = text else {
        return vec![Violation::new(path, 0, "is missing; it holds the map of the crates")];
    };
    let stands = |dir: &Path| text.lines().any(|l| l.contains(&format!("`{}`", dir.display())));
    let missing = dirs.iter().filter(|dir| !stands(dir));
    let advice = |dir: &Path| format!("the map has no line for `{}`; add one", dir.display());
    missing.map(|dir| Violation::new(path, 0, advice(dir))).collect()
}

/// Checks that the README mentions the demo and the tests.
pub fn check_readme(text: Option<&str>) -> Vec<Violation> {
    let path = Path::new("README.md");
    let text = text.unwrap_or_default();
    let missing = ["make demo", "make test"].into_iter().filter(|words| !text.contains(words));
    missing.map(|words| Violation::new(path, 0, format!("does not mention `{words}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_stands_in_the_map() {
        let dirs = [Path::new("crates/model"), Path::new("lab")];
        assert_eq!(check_map(Some("- `crates/model`: nouns\n- `lab`: kernels\n"), &dirs), []);
        assert_eq!(check_map(Some("- `crates/model`: nouns\n- lab\n"), &dirs).len(), 1);
        assert_eq!(check_map(None, &dirs).len(), 1);
    }

    #[test]
    fn the_readme_leads_to_demo_and_tests() {
        assert_eq!(check_readme(Some("`make demo`, `make test`")), []);
        assert_eq!(check_readme(Some("`make test`")).len(), 1);
        assert_eq!(check_readme(None).len(), 2);
    }

    #[test]
    fn documents_are_those_for_people() {
        let is = |path: &str| is_document(Path::new(path));
        assert!(is("README.md") && is("CHANGELOG.md") && is("docs/how-to/undo.md"));
        assert!(!is("crates/cli/src/output/reproduce/head.md") && !is("docs/pool.svg"));
    }

    #[test]
    fn a_document_has_so_many_bytes_at_most() {
        let told = |name: &str, bytes: usize| check_size(Path::new(name), &"x".repeat(bytes));
        assert_eq!((told("README.md", 10_000), told("docs/a.md", 90_000)), (None, None));
        let over = told("README.md", 10_001).unwrap().to_string();
        assert_eq!(over, "README.md: 10001 bytes, over 10000; move details to docs/");
        assert!(told("ARCHITECTURE.md", 20_001).is_some());
    }

    #[test]
    fn prose_has_so_many_columns_at_most() {
        let (fits, long) = ("é".repeat(120), "x".repeat(121));
        let printed = format!("    a  b  c  {fits}");
        let text = format!("{fits}\n| {long} |\n\n    {}\n{printed}\n{long}\n", &long[4..]);
        let told = |name: &str| {
            let found = check_columns(&Document::new(Path::new(name), &text));
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let advice = |line| format!("docs/a.md:{line}: 121 columns; break the line at 120");
        assert_eq!(told("docs/a.md"), [4, 6].map(advice));
    }
}
