//! docs/ is a book: SUMMARY.md lists every page exactly once, and no link leaves docs/, because the
//! rendered book has no other files.

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
    let unlisted = pages.filter_map(told);
    unlisted.chain(documents.iter().flat_map(leaving_links)).collect()
}

/// Returns the links of a page to files outside of docs/.
fn leaving_links(page: &Document<'_>) -> Vec<Violation> {
    let links = match page.path.starts_with(PAGES) {
        true => page.links(),
        false => Vec::new(),
    };
    let leaves = |target: &str| {
        let path = target.split('#').next().unwrap_or(target);
        resolve(page.path, path).is_some_and(|to| !to.starts_with(PAGES))
    };
    let leaving = links.into_iter().filter(|(_, target)| !target.contains("://") && leaves(target));
    let violation = |(line, target): (usize, String)| {
        let advice = format!("`{target}` is not in the book; name its path in backticks");
        Violation::new(page.path, line, advice)
    };
    leaving.map(violation).collect()
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

    /// Goal: a page may link to pages and pictures of docs/; other documents may link anywhere.
    #[test]
    fn no_link_leaves_the_book() {
        let told = |path: &'static str, text| -> Vec<String> {
            let page = Document::new(Path::new(path), text);
            leaving_links(&page).iter().map(ToString::to_string).collect()
        };
        assert_eq!(told("docs/how-to/undo.md", "[a](../README.md#b) [c](https://d.e/f)"), [""; 0]);
        let advice = "docs/a.md:2: `../SPEC.md` is not in the book; name its path in backticks";
        assert_eq!(told("docs/a.md", "\n[SPEC](../SPEC.md)"), [advice]);
        assert_eq!(told("README.md", "[SPEC](SPEC.md)"), [""; 0]);
    }

    #[test]
    fn without_a_summary_there_is_no_book() {
        assert_eq!(check(&[]).len(), 1);
    }
}
