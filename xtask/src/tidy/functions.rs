//! Functions, with their positions and lengths.

use super::source::{RustSource, item_end};
use super::violation::Violation;

/// Maximum length of a function, from its signature to its closing brace.
pub const LINES_MAX: usize = 70;

/// A function with a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: String,
    /// The line of its signature, from one.
    pub line: usize,
    pub lines: usize,
}

/// Checks the rule.
pub fn check(source: &RustSource) -> Vec<Violation> {
    let long = functions(&source.layers.code).into_iter().filter(|f| f.lines > LINES_MAX);
    long.map(|f| {
        let advice = format!("`{}` has {} lines, over {LINES_MAX}; split it", f.name, f.lines);
        source.violation(f.line, advice)
    })
    .collect()
}

/// Returns the functions of a file, from its layer of code.
pub fn functions(code: &str) -> Vec<Function> {
    let lines: Vec<&str> = code.lines().collect();
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let end = item_end(&lines, index);
        let has_body = lines[end - 1].trim_end().ends_with('}');
        if has_body {
            functions.push(Function { name, line: index + 1, lines: end - index });
        }
    }
    functions
}

/// Returns the name, if a function begins on this line.
fn function_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let name = loop {
        match words.next()? {
            "fn" => break words.next()?,
            word if is_qualifier(word) => {}
            _ => return None,
        }
    };
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    (end > 0).then(|| name[..end].to_owned())
}

fn is_qualifier(word: &str) -> bool {
    matches!(word, "const" | "async" | "unsafe" | "extern" | "pub") || word.starts_with("pub(")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn lengths(text: &str) -> Vec<(String, usize)> {
        let code = RustSource::new(Path::new("a.rs"), text).layers.code;
        functions(&code).into_iter().map(|f| (f.name, f.lines)).collect()
    }

    #[test]
    fn functions_are_measured_from_signature_to_brace() {
        let text = "fn a() {}\n pub(crate) const fn b<T>(\n  x: [u8; 3],\n ) -> T {\n  \
                    let _ = \"}\"; // }\n  { 1 }\n }\n";
        assert_eq!(lengths(text), [("a".to_owned(), 1), ("b".to_owned(), 6)]);
    }

    #[test]
    fn declarations_and_pointer_types_are_no_functions() {
        assert_eq!(lengths("fn a(x: u8) -> u8;\ntype F = fn(u8);\n// fn c() {}\n"), []);
    }

    #[test]
    fn one_line_too_many_is_reported_where_the_function_begins() {
        let text = |body| format!("//! A.\nfn f() {{\n{}}}\n", "    g();\n".repeat(body));
        let check = |body| check(&RustSource::new(Path::new("a.rs"), &text(body)));
        assert_eq!(check(68), []);
        assert_eq!(check(69)[0].to_string(), "a.rs:2: `f` has 71 lines, over 70; split it");
    }
}
