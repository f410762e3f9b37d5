//! A type name means one thing in the workspace: no two types that ship have the same name.

use std::collections::BTreeMap;

use super::source::RustSource;
use super::violation::Violation;

/// Names that are defined more than once, and why. Ten at most.
const REPEATED: &[(&str, &str)] = &[
    ("Args", "the command line of each program"),
    ("Error", "the error of each crate, as is usual in Rust"),
    ("Result", "the result that goes with it"),
    ("LoadReady", "both ends of one JSON line: the program that writes it, the tests that read it"),
    ("LoadDone", "the same"),
];

/// A type and the place of its definition.
struct Definition<'a> {
    name: &'a str,
    source: &'a RustSource,
    line: usize,
}

/// Types whose name another type has, in all files.
pub fn check(sources: &[RustSource]) -> Vec<Violation> {
    let mut by_name: BTreeMap<&str, Vec<Definition<'_>>> = BTreeMap::new();
    for definition in sources.iter().flat_map(definitions) {
        by_name.entry(definition.name).or_default().push(definition);
    }
    let may_repeat = |name: &str| REPEATED.iter().any(|(repeated, _)| *repeated == name);
    let repeated = by_name.into_iter().filter(|(name, all)| all.len() > 1 && !may_repeat(name));
    repeated.flat_map(|(_, all)| violations(&all)).collect()
}

fn violations(all: &[Definition<'_>]) -> Vec<Violation> {
    let Some((first, others)) = all.split_first() else { return Vec::new() };
    let place = format!("{}:{}", first.source.path.display(), first.line);
    let violation = |at: &Definition<'_>| {
        let name = at.name;
        let advice = format!("`{name}` is also defined at {place}; one name means one type");
        at.source.violation(at.line, advice)
    };
    others.iter().map(violation).collect()
}

fn definitions(source: &RustSource) -> impl Iterator<Item = Definition<'_>> {
    let lines = source.shipped_lines(&source.layers.code);
    lines.filter_map(|(line, text)| Some(Definition { name: defined(text)?, source, line }))
}

/// The name of the type that a line begins to define. Associated types are indented, and are no
/// names of their own.
fn defined(line: &str) -> Option<&str> {
    let item = without_visibility(line.trim_start());
    let kinds = ["struct ", "enum ", "union ", "trait ", "unsafe trait "];
    let named = kinds.iter().find_map(|kind| item.strip_prefix(kind));
    let alias = || without_visibility(line).strip_prefix("type ");
    let name = named.or_else(alias)?.trim_start();
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    (end > 0).then(|| &name[..end])
}

fn without_visibility(item: &str) -> &str {
    let Some(rest) = item.strip_prefix("pub") else { return item };
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(rest, |(_, behind)| behind),
        None => rest,
    };
    rest.strip_prefix(' ').unwrap_or(item)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Goal: the second of two types of a name is found, whatever its kind and its visibility;
    /// names in tests, associated types and names that may repeat are not.
    #[test]
    fn a_name_is_defined_once() {
        let file = |name: &str, text: &str| RustSource::new(Path::new(name), text);
        let sources = [
            file("a/src/a.rs", "pub struct Home;\n\nenum Args {}\n"),
            file("b/src/b.rs", "impl Iterator for B {\n    type Home = u8;\n}\nstruct Args;\n"),
            file("b/tests/c.rs", "struct Home;\n"),
            file("c/src/c.rs", "use a;\n    pub(super) unsafe trait Home<T> {}\n"),
            file("d/src/d.rs", "type Home = u8;\n#[cfg(test)]\nmod tests {\n    struct Home;\n}\n"),
        ];
        let found: Vec<String> = check(&sources).iter().map(ToString::to_string).collect();
        let expected = ["c/src/c.rs:2", "d/src/d.rs:1"].map(|at| {
            format!("{at}: `Home` is also defined at a/src/a.rs:1; one name means one type")
        });
        assert_eq!(found, expected);
    }
}
