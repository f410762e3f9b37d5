//! Separates code, comments and literals of a Rust file, well enough for rules about words.
//!
//! Each view has the length and the line breaks of the file; everything else is blank.

/// A file in three layers.
#[derive(Debug)]
pub struct Layers {
    /// Code without comments and without the content of literals.
    pub code: String,
    /// Comments only.
    pub comments: String,
    /// Only the content of string literals, with their quotes.
    pub literals: String,
}

#[derive(Clone, Copy, PartialEq)]
enum SourceLayer {
    Code,
    Comment,
    Literal,
}

/// Splits a file into its layers.
pub fn layers(text: &str) -> Layers {
    let chars: Vec<char> = text.chars().collect();
    let mut kinds = Vec::with_capacity(chars.len());
    while kinds.len() < chars.len() {
        let (layer, length) = token(&chars, kinds.len());
        let end = (kinds.len() + length.max(1)).min(chars.len());
        kinds.resize(end, layer);
    }
    let view = |layer| layer_text(&chars, &kinds, layer);
    Layers {
        code: view(SourceLayer::Code),
        comments: view(SourceLayer::Comment),
        literals: view(SourceLayer::Literal),
    }
}

fn layer_text(chars: &[char], kinds: &[SourceLayer], layer: SourceLayer) -> String {
    let keep =
        |(c, kind): (&char, &SourceLayer)| if *kind == layer || *c == '\n' { *c } else { ' ' };
    chars.iter().zip(kinds).map(keep).collect()
}

/// Returns the layer and length of the token at `at`.
fn token(chars: &[char], at: usize) -> (SourceLayer, usize) {
    let rest = &chars[at..];
    let after_word = at > 0 && is_word(chars[at - 1]);
    match rest {
        ['/', '/', ..] => (SourceLayer::Comment, line_length(rest)),
        ['/', '*', ..] => (SourceLayer::Comment, block_length(rest)),
        ['"', ..] => (SourceLayer::Literal, string_length(rest)),
        ['\'', ..] => {
            char_length(rest).map_or((SourceLayer::Code, 1), |n| (SourceLayer::Literal, n))
        }
        ['r' | 'b' | 'c', ..] if !after_word => {
            raw_length(rest).map_or((SourceLayer::Code, 1), |length| (SourceLayer::Literal, length))
        }
        _ => (SourceLayer::Code, 1),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_length(rest: &[char]) -> usize {
    rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())
}

/// Returns the length of a block comment; block comments nest.
fn block_length(rest: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_length(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// Returns the length of a character such as `'x'` or `'\n'`; `None` for a lifetime.
fn char_length(rest: &[char]) -> Option<usize> {
    match rest {
        ['\'', '\\', _, tail @ ..] => tail.iter().position(|c| *c == '\'').map(|n| n + 4),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

/// Returns the length of a raw string `r"..."`, `br##"..."##`. Other prefixed strings are handled
/// as usual.
fn raw_length(rest: &[char]) -> Option<usize> {
    let prefix = rest.iter().position(|c| !matches!(c, 'r' | 'b' | 'c'))?;
    if !rest[..prefix].contains(&'r') {
        return None;
    }
    let hashes = rest[prefix..].iter().take_while(|c| **c == '#').count();
    let start = prefix + hashes;
    if rest.get(start) != Some(&'"') {
        return None;
    }
    let mut end = vec!['"'];
    end.resize(hashes + 1, '#');
    let body = &rest[start + 1..];
    let found = body.windows(end.len()).position(|window| window == end);
    Some(found.map_or(rest.len(), |n| start + 1 + n + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows blanks as `.`, so that a test reads as a picture.
    fn picture(text: &str) -> [String; 3] {
        let Layers { code, comments, literals } = layers(text);
        [code, comments, literals].map(|view| view.replace(' ', "."))
    }

    #[test]
    fn comments_and_strings_leave_the_code() {
        let [code, comments, literals] = picture("a(\"b//c\"); // d \"e\"\nf");
        assert_eq!(code, "a(......);.........\nf");
        assert_eq!(comments, "...........//.d.\"e\"\n.");
        assert_eq!(literals, "..\"b//c\"...........\n.");
    }

    #[test]
    fn block_comments_nest() {
        assert_eq!(picture("a/* b /* c */ d */e")[0], "a.................e");
    }

    #[test]
    fn quotes_in_characters_and_escapes_do_not_open_strings() {
        assert_eq!(picture(r#"'"' x '\'' y "\"" z"#)[0], "....x......y......z");
        assert_eq!(picture("fn f<'a>(x: &'a u8) {}")[0], "fn.f<'a>(x:.&'a.u8).{}");
    }

    #[test]
    fn raw_strings_end_at_their_own_mark() {
        assert_eq!(picture("r#\"a\"b\"# c br\"d\\\" e")[0], ".........c........e");
        assert_eq!(picture("for r in b {}")[0], "for.r.in.b.{}");
    }

    #[test]
    fn an_open_literal_ends_with_the_file() {
        for text in ["\"a", "r#\"a\"", "/* a", "'", "\"\\"] {
            assert_eq!(layers(text).code.chars().count(), text.chars().count());
        }
    }
}
