//! Every Rust file is a module of something. A file that no `mod` names is compiled by nobody.

use std::collections::BTreeSet;
use std::path::Path;

use super::source::RustSource;
use super::violation::Violation;

/// Files with a meaning of their own for cargo.
const ROOTS: [&str; 3] = ["main", "lib", "build"];

/// Files below a `src` that no file names.
pub fn check(sources: &[RustSource]) -> Vec<Violation> {
    let named: BTreeSet<&str> = sources.iter().flat_map(modules).collect();
    let unused = sources
        .iter()
        .filter(|source| module(&source.path).is_some_and(|module| !named.contains(module)));
    unused.map(|source| source.violation(0, "no `mod` names this file; delete it")).collect()
}

/// The name that a `mod` must have for this file; `None` if cargo finds the file by itself.
fn module(path: &Path) -> Option<&str> {
    let stem = path.file_stem()?.to_str()?;
    let in_sources = path.components().any(|part| part.as_os_str() == "src");
    let in_programs = path.parent()?.ends_with("src/bin");
    if !in_sources || in_programs || ROOTS.contains(&stem) {
        return None;
    }
    if stem == "mod" { path.parent()?.file_name()?.to_str() } else { Some(stem) }
}

/// The modules that a file names, also by `#[path]`.
fn modules(source: &RustSource) -> impl Iterator<Item = &str> {
    source.text.lines().filter_map(|line| {
        let line = line.trim();
        match line.strip_prefix("#[path = \"") {
            Some(path) => Path::new(path.split('"').next()?).file_stem()?.to_str(),
            None => line.rsplit_once("mod ")?.1.strip_suffix(';'),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: files that a `mod` or a path names, roots and programs are used; others are not.
    #[test]
    fn files_are_named() {
        let file = |name: &str, text: &str| RustSource::new(Path::new(name), text);
        let sources = [
            file("a/src/lib.rs", "pub(crate) mod b;\n#[path = \"../x/d.rs\"]\nmod e;\n"),
            file("a/src/b/mod.rs", "mod c;\n"),
            file("a/src/b/c.rs", ""),
            file("a/src/x/d.rs", ""),
            file("a/src/bin/f.rs", ""),
            file("a/tests/g.rs", ""),
            file("a/src/old.rs", ""),
        ];
        let found: Vec<String> = check(&sources).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["a/src/old.rs: no `mod` names this file; delete it"]);
    }
}
