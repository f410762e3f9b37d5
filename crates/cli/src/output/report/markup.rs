//! Elements of the page. Text is escaped where it is written, so that no name becomes markup. The
//! result is HTML and well-formed XML at once.

use std::fmt::{self, Display, Formatter, Write as _};

/// Elements that HTML or SVG writes without an end.
const WITHOUT_CONTENT: [&str; 5] = ["meta", "path", "line", "rect", "circle"];
/// Elements inside a line of text; a line ends after all others.
const INLINE: [&str; 9] = ["a", "b", "code", "span", "td", "th", "text", "summary", "dt"];

/// An element with its content.
#[derive(Clone, Debug)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    content: Vec<Content>,
}

#[derive(Clone, Debug)]
enum Content {
    Element(Element),
    Text(String),
    /// Style sheets, in which nothing is escaped.
    Style(&'static str),
}

/// Begins an element.
pub fn element(name: &'static str) -> Element {
    Element { name, attributes: Vec::new(), content: Vec::new() }
}

impl Element {
    /// Adds an attribute.
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// Adds the attribute `class`.
    pub fn class(self, names: impl Display) -> Self {
        self.with("class", names)
    }

    /// Adds text.
    pub fn text(mut self, text: impl Display) -> Self {
        self.content.push(Content::Text(text.to_string()));
        self
    }

    /// Adds an element.
    pub fn child(mut self, child: Self) -> Self {
        self.content.push(Content::Element(child));
        self
    }

    /// Adds elements.
    pub fn children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.content.extend(children.into_iter().map(Content::Element));
        self
    }

    /// Adds a style sheet of ours. It has no `<` and no `&`, which XML would take for markup.
    pub fn style(mut self, css: &'static str) -> Self {
        self.content.push(Content::Style(css));
        self
    }
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}=\"")?;
            write_escaped(f, value)?;
            f.write_char('"')?;
        }
        if WITHOUT_CONTENT.contains(&self.name) {
            return f.write_str("/>\n");
        }
        f.write_char('>')?;
        for part in &self.content {
            match part {
                Content::Element(element) => element.fmt(f)?,
                Content::Text(text) => write_escaped(f, text)?,
                Content::Style(css) => f.write_str(css)?,
            }
        }
        let end = if INLINE.contains(&self.name) { "" } else { "\n" };
        write!(f, "</{}>{end}", self.name)
    }
}

/// Escapes what is markup. Characters that XML does not allow at all become a replacement
/// character.
fn write_escaped(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars() {
        match c {
            '&' => f.write_str("&amp;")?,
            '<' => f.write_str("&lt;")?,
            '>' => f.write_str("&gt;")?,
            '"' => f.write_str("&quot;")?,
            '\n' | '\t' => f.write_char(c)?,
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
            c => f.write_char(c)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: any text is read back from an attribute and from an element, but for characters
        /// that XML does not have.
        #[test]
        fn any_text_is_text(text in any::<String>()) {
            let page = element("p").with("title", &text).text(&text).to_string();
            let parsed = roxmltree::Document::parse(&page).unwrap();
            let has = |c: char| c == '\n' || c == '\t' || !c.is_control();
            let kept = |c: char| if has(c) { c } else { char::REPLACEMENT_CHARACTER };
            let expected: String = text.chars().map(kept).collect();
            let root = parsed.root_element();
            prop_assert_eq!(root.text().unwrap_or_default(), &expected);
            prop_assert_eq!(root.children().filter(|node| node.is_element()).count(), 0);
        }
    }

    /// Goal: elements without content end themselves, others have an end, also if they are empty.
    #[test]
    fn both_parsers_see_the_same_tree() {
        let cell = element("td").class("n");
        let row = element("tr").child(cell).child(element("meta").with("name", "a"));
        assert_eq!(row.to_string(), "<tr><td class=\"n\"></td><meta name=\"a\"/>\n</tr>\n");
    }
}
