//! The files of a crate use each other without circles, so that each can be understood with the
//! files below it alone.
//!
//! A file uses another if its code names, by a `use` or a path, an item that the other defines. A
//! path through re-exports leads to the file with the definition. These are no uses: `mod`
//! declarations, re-exports of items that the file does not need itself, and code for tests.
//! Methods are called without a path, so that uses of a type's methods in other files are not seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use super::module_tree::{FileUse, ModuleTree};
use super::source::RustSource;
use super::violation::Violation;

/// The uses between the files of a crate: of each file those that it uses, with the first place.
type Uses<'a> = BTreeMap<&'a Path, BTreeMap<&'a Path, FileUse<'a>>>;

/// Circles of files, in all crates.
pub fn check(sources: &[RustSource]) -> Vec<Violation> {
    let files = sources.iter().map(|source| (source.path.as_path(), source)).collect();
    let roots = sources.iter().filter(|source| is_root(&source.path));
    let found = roots.flat_map(|root| circles(&ModuleTree::new(root, &files)));
    found.filter_map(|circle| violation(&circle)).collect()
}

/// Returns whether a file is the root of a crate that ships.
fn is_root(path: &Path) -> bool {
    let is_named = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    is_named || path.parent().is_some_and(|dir| dir.ends_with("src/bin"))
}

fn violation(circle: &[FileUse<'_>]) -> Option<Violation> {
    let first = circle.first()?;
    let step = |one: &FileUse<'_>| {
        let (user, used) = (one.user.display(), one.used.display());
        format!("{user}:{} uses {used} by `{}`", one.line, one.path)
    };
    let steps: Vec<_> = circle.iter().map(step).collect();
    let advice =
        format!("a circle of files: {}; move what both need to a file below", steps.join(", "));
    Some(Violation::new(first.user, first.line, advice))
}

/// Returns the circles of a crate: of each set of files that all use each other, directly or by way
/// of others, the shortest circle through its first file.
fn circles<'a>(tree: &ModuleTree<'a>) -> Vec<Vec<FileUse<'a>>> {
    let mut uses = Uses::new();
    for one in tree.uses() {
        uses.entry(one.user).or_default().entry(one.used).or_insert(one);
    }
    let mut seen: BTreeSet<&Path> = BTreeSet::new();
    let mut found = Vec::new();
    for &file in uses.keys() {
        let circle = route(&uses, file, file);
        if circle.is_empty() || seen.contains(file) {
            continue;
        }
        let reaches = |from, to| !route(&uses, from, to).is_empty();
        seen.extend(uses.keys().filter(|other| reaches(file, other) && reaches(other, file)));
        found.push(circle);
    }
    found
}

/// Returns the uses that lead from one file to another, as few as possible; none if no uses do.
fn route<'a>(uses: &Uses<'a>, from: &Path, to: &Path) -> Vec<FileUse<'a>> {
    let mut came_by: BTreeMap<&Path, &FileUse<'a>> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(file) = next.pop_front() {
        for (&used, one) in uses.get(file).into_iter().flatten() {
            if came_by.contains_key(used) {
                continue;
            }
            came_by.insert(used, one);
            next.push_back(used);
        }
    }
    let mut steps = Vec::new();
    let mut at = to;
    while let Some(&one) = came_by.get(at) {
        steps.push(one.clone());
        at = one.user;
        if at == from {
            break;
        }
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Vec<RustSource> {
        files.iter().map(|(path, text)| RustSource::new(Path::new(path), text)).collect()
    }

    fn told(files: &[(&str, &str)]) -> Vec<String> {
        check(&sources(files)).iter().map(ToString::to_string).collect()
    }

    const ROOT: (&str, &str) = ("a/src/main.rs", "mod b;\nmod c;\nmod d;\n");
    const B: (&str, &str) = ("a/src/b.rs", "use crate::c::C;\n");
    const C: (&str, &str) = ("a/src/c.rs", "pub struct C;\n\nfn f() { crate::d::g(); }\n");
    const D: (&str, &str) = ("a/src/d.rs", "use crate::b;\npub fn g() { b::h(); }\n");

    /// Goal: a circle is told once, with the place of each use in it.
    #[test]
    fn a_circle_is_told_once() {
        let advice = "a/src/b.rs:1: a circle of files: a/src/b.rs:1 uses a/src/c.rs by \
                      `crate::c::C`, a/src/c.rs:3 uses a/src/d.rs by `crate::d::g`, a/src/d.rs:2 \
                      uses a/src/b.rs by `b::h`; move what both need to a file below";
        assert_eq!(told(&[ROOT, B, C, D]), [advice]);
        assert_eq!(told(&[ROOT, B, C]), [""; 0]);
    }

    /// Goal: a parent that calls its child, and a child that uses what the parent defines, are a
    /// circle; two programs of one package are two crates.
    #[test]
    fn parents_and_children() {
        let parent = "mod b;\npub struct S;\nfn f() { b::g(); }\n";
        let child = ("a/src/b.rs", "use super::S;\npub fn g() {}\n");
        assert_eq!(told(&[("a/src/lib.rs", parent), child]).len(), 1);
        let lib = ("a/src/lib.rs", "pub struct S;\n");
        let bin = ("a/src/bin/f.rs", "use a::S;\n");
        assert_eq!(told(&[lib, bin]), [""; 0]);
    }
}
