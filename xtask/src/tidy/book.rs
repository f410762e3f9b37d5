//! docs/ is a book: SUMMARY.md lists every page exactly once.

use std::path::{Path, PathBuf};

use super::links::resolve;
use super::markdown::Document;
use super::violation::Violation;

const PAGES: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks the rule, for all documents.
pub fn check(documents: &[Document<'_>]) -> Vec<Violation> {
    let summary = Path::new(SUMMARY);
    let Some(contents) = documents.iter().find(|document| document.path == summary) else {
        return vec![Violation::new(summary, 0, "is missing; mdBook reads which pages there are")];
    };
    let links = contents.links();
    let to = |target: &str| resolve(summary, target.split('#').next().unwrap_or(target));
    let listed: Vec<PathBuf> = links.iter().filter_map(|(_, target)| to(target)).collect();
    let pages = documents.iter().map(|document| document.path);
    let pages = pages.filter(|path| path.starts_with(PAGES) && *path != summary);
    let told = |page: &Path| {
        let advice = match listed.iter().filter(|path| *path == page).count() {
            0 => format!("is not in {SUMMARY}; list it there"),
            1 => return None,
            times => format!("stands in {SUMMARY} {times} times; list it once"),
        };
        Some(Violation::new(page, 0, advice))
    };
    pages.filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(summary: &str) -> Vec<String> {
        let paths = [SUMMARY, "docs/README.md", "docs/how-to/undo.md", "README.md"].map(Path::new);
        let document = |path| Document::new(path, if path == paths[0] { summary } else { "" });
        check(&paths.map(document)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_page_is_listed_once() {
        assert_eq!(told("[A](README.md)\n- [B](how-to/undo.md)\n"), [""; 0]);
        let missing = "docs/how-to/undo.md: is not in docs/SUMMARY.md; list it there";
        assert_eq!(told("[A](README.md)"), [missing]);
        let twice = "docs/README.md: stands in docs/SUMMARY.md 2 times; list it once";
        assert_eq!(told("[A](README.md)\n[B](how-to/undo.md) [C](./README.md)"), [twice]);
    }

    #[test]
    fn without_a_summary_there_is_no_book() {
        assert_eq!(check(&[]).len(), 1);
    }
}
