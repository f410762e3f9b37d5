//! Paragraphs of generated pages, in lines.

/// Maximum length of a line, in columns.
const COLUMNS_MAX: usize = 100;

/// Breaks a paragraph at blanks. A word that is too long has a line of its own.
pub fn in_lines(paragraph: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS_MAX => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: lines are as long as they may be, and no word is cut: 33 words of two letters and
    /// the blanks between them are 98 columns, and one more would be 101.
    #[test]
    fn lines_are_broken_at_blanks() {
        let line = ["ab"; 33].join(" ");
        assert_eq!(line.len(), 98);
        assert_eq!(in_lines(&format!("{line} cd")), format!("{line}\ncd"));
        let long = "x".repeat(101);
        assert_eq!(in_lines(&format!("a {long} b")), format!("a\n{long}\nb"));
        assert_eq!(in_lines("short"), "short");
    }
}
