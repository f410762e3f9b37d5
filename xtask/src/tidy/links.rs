//! Links of documents must lead to an existing file of the repository, and to an existing heading.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::markdown::Document;
use super::violation::Violation;

/// Checks the rule, for all documents; `files` are all files that a link may name.
pub fn check(documents: &[Document<'_>], files: &BTreeSet<&Path>) -> Vec<Violation> {
    documents.iter().flat_map(|document| check_document(document, documents, files)).collect()
}

fn check_document(
    document: &Document<'_>,
    documents: &[Document<'_>],
    files: &BTreeSet<&Path>,
) -> Vec<Violation> {
    let links = document.links().into_iter().filter(|(_, target)| is_relative(target));
    let fault = |(line, target): (usize, String)| {
        let advice = fault(document.path, &target, documents, files)?;
        Some(Violation::new(document.path, line, advice))
    };
    links.filter_map(fault).collect()
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

/// Returns the fault of a link from a document, if there is one.
fn fault(
    from: &Path,
    target: &str,
    documents: &[Document<'_>],
    files: &BTreeSet<&Path>,
) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(p, a)| (p, Some(a)));
    let Some(to) = resolve(from, path).filter(|to| files.contains(to.as_path())) else {
        return Some(format!("`{target}` leads to no file of the repository; correct the link"));
    };
    let anchor = anchor?;
    let found = documents.iter().find(|document| document.path == to);
    let has_it = found.is_some_and(|document| document.anchors().contains(anchor));
    let advice = || format!("`{target}` leads to no heading of {}; correct the link", to.display());
    (!has_it).then(advice)
}

/// Resolves a relative path in a document to a file, if it is within the repository.
pub fn resolve(from: &Path, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        return Some(from.to_path_buf());
    }
    let mut to = from.parent()?.to_path_buf();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => to.push(name),
            Component::ParentDir if to.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the faults of the links of docs/a.md, beside docs/b.md and src/c.rs.
    fn told(text: &str) -> Vec<String> {
        let [a, b, c] = ["docs/a.md", "docs/b.md", "src/c.rs"].map(Path::new);
        let documents = [Document::new(a, text), Document::new(b, "# One\n## Two words\n")];
        let files = [a, b, c].into_iter().collect();
        check(&documents, &files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere() {
        let text = "# Here\n[a](b.md) [b](b.md#two-words) [c](../src/c.rs) [d](#here) \
                    [e](https://example.org/x#y) [f](mailto:a@example.org) [g](../docs/./b.md)";
        assert_eq!(told(text), [""; 0]);
    }

    #[test]
    fn a_link_to_no_file() {
        let want = |target: &str| {
            format!("docs/a.md:2: `{target}` leads to no file of the repository; correct the link")
        };
        for target in ["c.md", "../docs", "../../b.md", "/docs/b.md"] {
            assert_eq!(told(&format!("text\n[a]({target})")), [want(target)]);
        }
    }

    #[test]
    fn a_link_to_no_heading() {
        let want = |target: &str, to: &str| {
            format!("docs/a.md:1: `{target}` leads to no heading of {to}; correct the link")
        };
        let links = "[a](#here) [b](b.md#three) [c](../src/c.rs#L7)";
        let wrong = [("#here", "docs/a.md"), ("b.md#three", "docs/b.md")];
        let mut all: Vec<String> = wrong.iter().map(|(target, to)| want(target, to)).collect();
        all.push(want("../src/c.rs#L7", "src/c.rs"));
        assert_eq!(told(links), all);
    }
}
