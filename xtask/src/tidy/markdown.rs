//! Parses Markdown documents as far as the rules need it: lines of prose, targets of links,
//! headings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Prose,
    Table,
    Code,
}

/// A document with the kinds of its lines.
#[derive(Debug)]
pub struct Document<'a> {
    pub path: &'a Path,
    lines: Vec<(LineKind, &'a str)>,
}

impl<'a> Document<'a> {
    /// Parses a document.
    pub fn new(path: &'a Path, text: &'a str) -> Document<'a> {
        let mut lines: Vec<(LineKind, &str)> = Vec::new();
        let mut fence = None;
        for line in text.lines() {
            let follows_prose = lines
                .last()
                .is_some_and(|(kind, above)| *kind != LineKind::Code && !above.trim().is_empty());
            lines.push((kind(line, &mut fence, follows_prose), line));
        }
        Document { path, lines }
    }

    /// Returns the lines that are neither code nor tables, with their numbers from one.
    pub fn prose(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.numbered()
            .filter(|(_, kind, _)| *kind == LineKind::Prose)
            .map(|(at, _, line)| (at, line))
    }

    /// Returns the lines that are in no table, with their numbers from one. A line of code with
    /// three gaps between words is in a table that a program prints.
    pub fn outside_tables(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let is_row =
            |line: &str| line.trim().split("  ").filter(|cell| !cell.is_empty()).count() > 3;
        self.numbered()
            .filter(move |(_, kind, line)| match kind {
                LineKind::Prose => true,
                LineKind::Table => false,
                LineKind::Code => !is_row(line),
            })
            .map(|(at, _, line)| (at, line))
    }

    /// Returns the targets of all links and pictures, each with the number of its line.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        let mut open = 0;
        for (number, kind, line) in self.numbered() {
            if kind == LineKind::Code || line.trim().is_empty() {
                open = 0;
                continue;
            }
            let shown = without_spans(line, &mut open);
            links.extend(targets(&shown).map(|target| (number, target.to_owned())));
        }
        links
    }

    /// Returns the valid anchors of links to this document.
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let headings = self.prose().filter_map(|(_, line)| heading(line));
        let anchor = |title: &str| {
            let slug = slug(title);
            let before = seen.entry(slug.clone()).or_default();
            *before += 1;
            if *before == 1 { slug } else { format!("{slug}-{}", *before - 1) }
        };
        headings.map(anchor).collect()
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, LineKind, &'a str)> {
        self.lines.iter().enumerate().map(|(index, (kind, line))| (index + 1, *kind, *line))
    }
}

/// Returns the kind of a line. `fence` is the mark of the open fenced block.
fn kind(line: &str, fence: &mut Option<&'static str>, follows_prose: bool) -> LineKind {
    let bare = line.trim_start();
    if let Some(mark) = *fence {
        if bare.starts_with(mark) {
            *fence = None;
        }
        return LineKind::Code;
    }
    *fence = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
    // Indented text continues the item of a list that it follows without a blank line.
    let is_indented = line.starts_with("    ") && !follows_prose;
    match bare {
        _ if fence.is_some() || is_indented => LineKind::Code,
        _ if bare.starts_with('|') => LineKind::Table,
        _ => LineKind::Prose,
    }
}

/// Returns the line without its code spans, which may continue over lines; `open` is the number of
/// backticks with which the present one began, or zero.
fn without_spans(line: &str, open: &mut usize) -> String {
    let mut shown = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let (before, from) = rest.split_at(at);
        let after = from.trim_start_matches('`');
        let run = from.len() - after.len();
        match *open {
            0 => {
                shown += before;
                *open = run;
            }
            begun if begun == run => *open = 0,
            _ => {}
        }
        rest = after;
    }
    if *open == 0 {
        shown += rest;
    }
    shown
}

/// Returns the targets of `[text](target "title")`, of pictures, and of `[name]: target`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.match_indices("](").filter_map(|(at, mark)| {
        let (target, _) = line[at + mark.len()..].split_once(')')?;
        target.split_whitespace().next()
    });
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    inline.chain(definition.and_then(|(_, target)| target.split_whitespace().next()))
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    let depth = line.len() - title.len();
    title.strip_prefix(' ').filter(|_| (1..=6).contains(&depth)).map(str::trim)
}

/// Returns the anchor of a heading, as GitHub and mdBook form it.
fn slug(title: &str) -> String {
    let letter = |c: char| match c {
        _ if c.is_alphanumeric() || matches!(c, '_' | '-') => Some(c.to_ascii_lowercase()),
        _ => c.is_whitespace().then_some('-'),
    };
    title.chars().filter_map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document<'_> {
        Document::new(Path::new("a.md"), text)
    }

    fn prose(text: &str) -> Vec<usize> {
        document(text).prose().map(|(number, _)| number).collect()
    }

    fn links(text: &str) -> Vec<(usize, String)> {
        document(text).links()
    }

    fn anchors(text: &str) -> Vec<String> {
        document(text).anchors().into_iter().collect()
    }

    #[test]
    fn tables_and_code_are_no_prose() {
        assert_eq!(prose("a\n| b |\n```sh\nc\n```\nd"), [1, 6]);
        assert_eq!(prose("a\n\n    b\n\n    c\nd"), [1, 2, 4, 6]);
        assert_eq!(prose("~~~\n```\n~~~\na"), [4]);
    }

    /// Goal: a long list item is prose in all its lines.
    #[test]
    fn a_list_goes_on_indented() {
        assert_eq!(prose("1. a\n    b\n\n    c"), [1, 2, 3]);
    }

    #[test]
    fn links_have_the_line_of_their_target() {
        let one = |number, target: &str| (number, target.to_owned());
        assert_eq!(links("[a](b.md) ![c](d.svg \"e\")"), [one(1, "b.md"), one(1, "d.svg")]);
        assert_eq!(links("see [a\nb](c.md#d)"), [one(2, "c.md#d")]);
        assert_eq!(links("| [a](b.md) |\n\n[c]: d.md"), [one(1, "b.md"), one(3, "d.md")]);
        assert_eq!(links("[`a`](b.md)"), [one(1, "b.md")]);
    }

    /// Goal: code that looks like a link is none, also where a span continues on the next line.
    #[test]
    fn code_has_no_links() {
        assert_eq!(links("`[a](b)` ``c ` [d](e)`` `f\n[g](h)`"), []);
        assert_eq!(links("a\n\n    [b](c)\n\n```\n[d](e)\n```"), []);
        assert_eq!(links("`a\n\n[b](c)"), [(3, "c".to_owned())]);
    }

    #[test]
    fn headings_become_anchors() {
        assert_eq!(anchors("# The *lab*: `--jobs`, 2\n#no\n####### no"), ["the-lab---jobs-2"]);
        assert_eq!(anchors("# A\n## A\n```\n# B\n```\n## A"), ["a", "a-1", "a-2"]);
        assert_eq!(anchors("## What's to_do"), ["whats-to_do"]);
    }
}
