//! Paragraphs of generated pages, in lines.

use nodeward_experiments::command_lines;

/// Maximum length of a line, in columns.
const COLUMNS_MAX: usize = 100;
/// Maximum length of an item that names a command: what documents may have.
const ITEM_COLUMNS_MAX: usize = 120;

/// Breaks a paragraph at blanks. A word that is too long has a line of its own.
pub fn in_lines(paragraph: &str) -> String {
    in_lines_of(COLUMNS_MAX, paragraph).join("\n")
}

/// Breaks a paragraph that stands behind a label, in lines that begin below its first word.
pub fn labelled(label: &str, paragraph: &str) -> String {
    let indent = label.chars().count();
    let separator = format!("\n{}", " ".repeat(indent));
    format!("{label}{}\n", in_lines_of(COLUMNS_MAX - indent, paragraph).join(&separator))
}

fn in_lines_of(columns: usize, paragraph: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the item of a list that names a command, and `more` that is to be said of it. A command
/// that does not fit into a line stands below, in lines that a shell takes as one.
pub fn command_item(name: &str, command: &str, more: &str) -> String {
    let item = format!("- {name}: `{command}`{more}\n");
    if item.trim_end().chars().count() <= ITEM_COLUMNS_MAX {
        return item;
    }
    format!("- {name}{more}:\n\n      {}\n", command_lines(command).join(" \\\n      "))
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

    /// Goal: what stands behind a label is broken where its lines end, and begins below its first
    /// word: 32 words of two letters, their blanks and a label of 5 columns are 100.
    #[test]
    fn labelled_lines_begin_below_the_first() {
        let line = ["ab"; 32].join(" ");
        assert_eq!(
            labelled("why: ", &format!("{line} cd ef")),
            format!("why: {line}\n     cd ef\n")
        );
    }

    /// Goal: a command stands in its item as long as that fits into 120 columns, and below it
    /// otherwise. The item around `nodeward sim zen3` and its options has 16 columns; with eight
    /// options of 10 columns it has 113, with nine 123.
    #[test]
    fn long_commands_stand_below_their_item() {
        let command = |options: usize| format!("nodeward sim zen3{}", " --set a=b".repeat(options));
        let fits = command(8);
        assert_eq!(command_item("kernel", &fits, ", it"), format!("- kernel: `{fits}`, it\n"));
        let long = command_item("kernel", &command(9), ", it");
        assert_eq!(long, format!("- kernel, it:\n\n      {fits} \\\n        --set a=b\n"));
    }
}
