//! The modules of one crate, and the file in which the item that a path names is defined.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::paths::{FileNames, Import};
use super::source::RustSource;

/// A module that is a file.
#[derive(Debug)]
struct ModuleFile<'a> {
    source: &'a RustSource,
    names: FileNames<'a>,
    parent: usize,
    children: BTreeMap<&'a str, usize>,
}

/// The modules of a crate; the first is its root.
#[derive(Debug)]
pub struct ModuleTree<'a> {
    modules: Vec<ModuleFile<'a>>,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Named {
    Module(usize),
    /// An item that this module defines.
    ItemOf(usize),
}

/// A use of one file's item in another file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileUse<'a> {
    pub user: &'a Path,
    pub used: &'a Path,
    /// The line of the user, from one.
    pub line: usize,
    pub path: String,
}

/// Paths that are being resolved, each from its module.
type Pending<'a> = BTreeSet<(usize, Vec<&'a str>)>;

impl<'a> ModuleTree<'a> {
    /// Follows the `mod` declarations from the root of a crate. Modules for tests, and those with a
    /// `#[path]` of their own, are left out.
    pub fn new(root: &'a RustSource, files: &BTreeMap<&Path, &'a RustSource>) -> Self {
        let mut tree = Self { modules: Vec::new() };
        tree.add(root, 0, true, files);
        tree
    }

    fn add(
        &mut self,
        source: &'a RustSource,
        parent: usize,
        is_root: bool,
        files: &BTreeMap<&Path, &'a RustSource>,
    ) -> usize {
        let index = self.modules.len();
        let names = FileNames::of(source);
        let declared = names.modules.clone();
        self.modules.push(ModuleFile { source, names, parent, children: BTreeMap::new() });
        for name in declared {
            let paths = child_paths(&source.path, is_root, name);
            let found = paths.iter().find_map(|path| files.get(path.as_path()));
            if let Some(child) = found {
                let child = self.add(child, index, false, files);
                self.modules[index].children.insert(name, child);
            }
        }
        index
    }

    /// Returns every use of one file's item in another. A re-export counts only if the file that
    /// re-exports also names the item in its own code.
    pub fn uses(&self) -> Vec<FileUse<'a>> {
        let of = |(index, module)| self.uses_of(index, module);
        self.modules.iter().enumerate().flat_map(of).collect()
    }

    fn uses_of(&self, index: usize, module: &ModuleFile<'a>) -> Vec<FileUse<'a>> {
        let names = &module.names;
        let counts = |import: &&Import<'_>| {
            !import.is_public || import.name.is_some_and(|name| names.words.contains(name))
        };
        let imports = names.imports.iter().filter(counts).filter_map(|import| {
            let used = match self.resolve(index, &import.path, &mut Pending::new())? {
                Named::ItemOf(used) => used,
                // All that a module has, under no name of its own.
                Named::Module(used) if import.name.is_none() => used,
                Named::Module(_) => return None,
            };
            Some((used, &import.path, import.line))
        });
        let paths = names.paths.iter().filter_map(|(path, line)| {
            match self.resolve(index, path, &mut Pending::new())? {
                Named::ItemOf(used) => Some((used, path, *line)),
                Named::Module(_) => None,
            }
        });
        let others = imports.chain(paths).filter(|(used, ..)| *used != index);
        let use_of = |(used, path, line): (usize, &Vec<&str>, usize)| FileUse {
            user: &module.source.path,
            used: &self.modules[used].source.path,
            line,
            path: path.join("::"),
        };
        others.map(use_of).collect()
    }

    /// Returns what a path in a module names; `None` if that is in another crate.
    fn resolve(&self, from: usize, path: &[&'a str], pending: &mut Pending<'a>) -> Option<Named> {
        if !pending.insert((from, path.to_vec())) {
            return None;
        }
        let mut module = from;
        let mut rest = path;
        while let [first @ ("crate" | "self" | "super"), behind @ ..] = rest {
            module = match *first {
                "crate" => 0,
                "super" => self.modules[module].parent,
                _ => module,
            };
            rest = behind;
        }
        let mut may_be_foreign = rest.len() == path.len();
        while let [first, behind @ ..] = rest {
            let found = self.lookup(module, first, behind, pending);
            match found {
                Some(Named::Module(next)) => module = next,
                Some(item) => return Some(item),
                None => return (!may_be_foreign).then_some(Named::ItemOf(module)),
            }
            may_be_foreign = false;
            rest = behind;
        }
        Some(Named::Module(module))
    }

    /// Returns what a name means in a module, where `behind` follows it in a path.
    fn lookup(
        &self,
        module: usize,
        name: &'a str,
        behind: &[&'a str],
        pending: &mut Pending<'a>,
    ) -> Option<Named> {
        let ModuleFile { names, children, .. } = &self.modules[module];
        let child = children.get(name).map(|&child| Named::Module(child));
        // A module and an item of it may have the same name.
        if let Some(child) = child.filter(|_| !behind.is_empty()) {
            return Some(child);
        }
        if names.defined.contains(name) {
            return Some(Named::ItemOf(module));
        }
        let named = names.imports.iter().filter(|import| import.name == Some(name));
        let imported = named.map(|import| &import.path);
        let found = imported.into_iter().find_map(|path| self.resolve(module, path, pending));
        found.or(child).or_else(|| {
            let mut globs = names.imports.iter().filter(|import| import.name.is_none());
            globs.find_map(|glob| match self.resolve(module, &glob.path, pending)? {
                Named::Module(other) if other != module => {
                    self.lookup(other, name, behind, pending)
                }
                _ => None,
            })
        })
    }
}

/// Returns the places where the file of a child module may be.
fn child_paths(parent: &Path, is_root: bool, name: &str) -> [PathBuf; 2] {
    let is_directory = is_root || parent.file_stem().is_some_and(|stem| stem == "mod");
    let dir = match is_directory {
        true => parent.parent().unwrap_or(parent).to_path_buf(),
        false => parent.with_extension(""),
    };
    [dir.join(name).with_extension("rs"), dir.join(name).join("mod.rs")]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the uses in a crate as `user -> used`, each once.
    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| RustSource::new(Path::new(path), text);
        let sources: Vec<_> = files.iter().map(file).collect();
        let by_path = sources.iter().map(|source| (source.path.as_path(), source)).collect();
        let tree = ModuleTree::new(&sources[0], &by_path);
        let shown = |one: FileUse<'_>| {
            let name = |path: &Path| path.strip_prefix("a/src").unwrap().display().to_string();
            format!("{} -> {}", name(one.user), name(one.used))
        };
        tree.uses().into_iter().map(shown).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Goal: a path leads to the file that defines the item, through re-exports and modules with
    /// names of their own; names of other crates lead nowhere.
    #[test]
    fn paths_lead_to_definitions() {
        let found = uses(&[
            ("a/src/lib.rs", "mod b;\nmod c;\npub use b::{T, d::*};\nuse std::c::X;\n"),
            ("a/src/b/mod.rs", "pub mod d;\npub struct T;\n"),
            ("a/src/b/d.rs", "pub enum D {}\n"),
            ("a/src/c.rs", "use crate::b::d;\nfn f(_: crate::T) -> crate::D { d::D::A }\n"),
        ]);
        assert_eq!(found, ["c.rs -> b/d.rs", "c.rs -> b/mod.rs"]);
    }

    /// Goal: a re-export is a use only where the file needs the item itself; code for tests is not.
    #[test]
    fn re_exports_are_no_uses() {
        let child = ("a/src/b.rs", "use super::S;\npub struct T;\n");
        let parent = "mod b;\npub use b::T;\npub struct S;\n";
        assert_eq!(uses(&[("a/src/lib.rs", parent), child]), ["b.rs -> lib.rs"]);
        let needs = format!("{parent}fn f(_: T) {{}}\n");
        let both = ["b.rs -> lib.rs", "lib.rs -> b.rs"];
        assert_eq!(uses(&[("a/src/lib.rs", &needs), child]), both);
        let test = ("a/src/b.rs", "#[cfg(test)]\nmod tests {\n    use super::super::S;\n}\n");
        assert_eq!(uses(&[("a/src/lib.rs", parent), test]), [""; 0]);
    }

    /// Goal: a module and an item of it may have one name.
    #[test]
    fn a_module_is_no_item() {
        let found = uses(&[
            ("a/src/lib.rs", "mod b;\nmod c;\npub use b::c;\n"),
            ("a/src/b.rs", "use crate::c::T;\npub fn c() {}\n"),
            ("a/src/c.rs", "pub struct T;\nfn f() { crate::b::c(); }\n"),
        ]);
        assert_eq!(found, ["b.rs -> c.rs", "c.rs -> b.rs"]);
    }
}
