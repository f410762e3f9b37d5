//! The paths in a Rust file, such as `crate::a::b`, and the names that it defines and imports, well
//! enough for rules about who uses whom. Code that is only for tests is left out.

use std::collections::BTreeSet;

use super::source::RustSource;

/// A name that a `use` brings into a file.
#[derive(Debug, PartialEq)]
pub struct Import<'a> {
    pub path: Vec<&'a str>,
    /// The name in this file; `None` for `*`.
    pub name: Option<&'a str>,
    /// Whether others see it through this file, too.
    pub is_public: bool,
    /// The line, from one.
    pub line: usize,
}

/// The names in a file.
#[derive(Debug, Default, PartialEq)]
pub struct FileNames<'a> {
    pub imports: Vec<Import<'a>>,
    /// Paths of two words and more outside of `use`, each with its line.
    pub paths: Vec<(Vec<&'a str>, usize)>,
    /// The modules that it declares: `mod a;`.
    pub modules: Vec<&'a str>,
    /// The types, functions, constants and traits that it defines, at whatever depth.
    pub defined: BTreeSet<&'a str>,
    /// All words outside of `use`.
    pub words: BTreeSet<&'a str>,
}

/// Words before the name of an item.
const ITEMS: [&str; 9] =
    ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules"];

#[derive(Clone, Copy)]
struct PathToken<'a> {
    text: &'a str,
    line: usize,
}

impl<'a> FileNames<'a> {
    /// Reads the code of a file that ships.
    pub fn of(source: &'a RustSource) -> Self {
        let lines = source.shipped_lines(&source.layers.code);
        let tokens: Vec<_> = lines.flat_map(|(line, text)| tokens(line, text)).collect();
        let mut names = Self::default();
        let mut at = 0;
        while at < tokens.len() {
            at = names.read(&tokens, at);
        }
        names
    }

    /// Reads what begins at a token, and returns the place of the next.
    fn read(&mut self, tokens: &[PathToken<'a>], at: usize) -> usize {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        let follows = |words: &[&str]| at > 0 && words.contains(&text(at - 1));
        match text(at) {
            "use" if !matches!(text(at + 1), "<" | "") => {
                let is_public = follows(&["pub"]) || follows(&[")"]) && is_scope(tokens, at - 1);
                return self.read_use(tokens, at + 1, &[], is_public);
            }
            "mod" if text(at + 2) == ";" => {
                self.modules.push(text(at + 1));
                return at + 3;
            }
            word if is_word(word) && text(at + 1) == "::" && !follows(&["::", ".", "$"]) => {
                return self.read_path(tokens, at);
            }
            word if is_word(word) => {
                if let Some(name) = defined(&text, at) {
                    self.defined.insert(name);
                }
                self.words.insert(word);
            }
            _ => {}
        }
        at + 1
    }

    fn read_path(&mut self, tokens: &[PathToken<'a>], start: usize) -> usize {
        let mut path = vec![tokens[start].text];
        let mut at = start + 1;
        while let [separator, word, ..] = &tokens[at..]
            && separator.text == "::"
            && is_word(word.text)
        {
            path.push(word.text);
            at += 2;
        }
        self.words.extend(&path);
        if path.len() > 1 {
            self.paths.push((path, tokens[start].line));
        }
        at
    }

    /// Reads one branch of the tree of a `use`, and returns the place after it.
    fn read_use(
        &mut self,
        tokens: &[PathToken<'a>],
        start: usize,
        stem: &[&'a str],
        is_public: bool,
    ) -> usize {
        let text = |at: usize| tokens.get(at).map_or(";", |token| token.text);
        let line = tokens.get(start).map_or(0, |token| token.line);
        let mut path = stem.to_vec();
        let mut at = start;
        loop {
            match text(at) {
                "::" => at += 1,
                "{" => {
                    at += 1;
                    while !matches!(text(at), "}" | ";") {
                        at = self.read_use(tokens, at, &path, is_public);
                        at += usize::from(text(at) == ",");
                    }
                    return at + 1;
                }
                "*" => {
                    self.imports.push(Import { path, name: None, is_public, line });
                    return at + 1;
                }
                word if is_word(word) => {
                    path.push(word);
                    at += 1;
                    if text(at) == "::" {
                        continue;
                    }
                    if word == "self" && path.len() > 1 {
                        path.pop();
                    }
                    let (name, end) =
                        if text(at) == "as" { (text(at + 1), at + 2) } else { (last(&path), at) };
                    self.imports.push(Import { path, name: Some(name), is_public, line });
                    return end;
                }
                _ => return at + 1,
            }
        }
    }
}

fn last<'a>(path: &[&'a str]) -> &'a str {
    path.last().copied().unwrap_or_default()
}

/// Returns the name of the item that a word begins to define.
fn defined<'a>(text: &impl Fn(usize) -> &'a str, at: usize) -> Option<&'a str> {
    let skipped = usize::from(matches!(text(at + 1), "!" | "mut"));
    let name = text(at + 1 + skipped);
    (ITEMS.contains(&text(at)) && is_word(name)).then_some(name)
}

/// Returns whether a closing parenthesis ends the scope of a `pub(crate)`.
fn is_scope(tokens: &[PathToken<'_>], close: usize) -> bool {
    let before = tokens[..close].iter().rev();
    let mut words = before.map(|token| token.text).skip_while(|text| *text != "(");
    words.nth(1) == Some("pub")
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn tokens(line: usize, text: &str) -> impl Iterator<Item = PathToken<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            ':' if rest.starts_with("::") => 2,
            // A lifetime is one token, so that its name is no word.
            '\'' => 1 + rest[1..].find(|c| !in_word(c)).unwrap_or(rest.len() - 1),
            c if in_word(c) => rest.find(|c| !in_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        Some(PathToken { text: token, line })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn file(text: &str) -> RustSource {
        RustSource::new(Path::new("a/src/a.rs"), text)
    }

    /// Goal: every branch of a `use` is an import with its own name.
    #[test]
    fn trees_of_uses() {
        let source = file("use a::{self, b::{C, D as E}, f::*};\npub(crate) use super::G;\n");
        let names = FileNames::of(&source);
        let shown: Vec<_> = names.imports.iter().map(|i| (i.path.join("::"), i.name)).collect();
        let expected = [
            ("a", Some("a")),
            ("a::b::C", Some("C")),
            ("a::b::D", Some("E")),
            ("a::f", None),
            ("super::G", Some("G")),
        ];
        assert_eq!(shown, expected.map(|(path, name)| (path.to_owned(), name)));
        assert_eq!(names.imports.iter().filter(|import| import.is_public).count(), 1);
        assert_eq!(names.imports[4].line, 2);
    }

    /// Goal: paths in code are found, and definitions; comments, strings and tests are not.
    #[test]
    fn paths_and_definitions() {
        let source = file(
            "mod b;\n// crate::no\nfn f<'a>(x: &'a crate::b::T) -> impl I + use<'a> {\n\
             \"crate::no\"; b::g::<u8>(); x.no::<u8>()\n}\npub struct S;\n\
             #[cfg(test)]\nmod tests {\n    use super::*;\n}\n",
        );
        let names = FileNames::of(&source);
        assert_eq!(names.paths, [(vec!["crate", "b", "T"], 3), (vec!["b", "g"], 4)]);
        assert_eq!(names.defined, BTreeSet::from(["S", "f"]));
        assert_eq!((names.modules, names.imports.len()), (vec!["b"], 0));
    }
}
