//! Commands of generated pages, in lines.

/// Maximum length of a line, in columns.
const COLUMNS_MAX: usize = 100;

/// Breaks a command before options, into lines that a shell takes as one where each but the last
/// ends with a backslash.
pub fn command_lines(command: &str) -> Vec<String> {
    let (program, options) = command.split_once(" --").unwrap_or((command, ""));
    let mut lines = vec![program.to_owned()];
    for option in options.split(" --").filter(|option| !option.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.len() + " --".len() + option.len() <= COLUMNS_MAX => {
                *line += &format!(" --{option}");
            }
            _ => lines.push(format!("  --{option}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: lines are as long as they may be, and no option is cut: `nodeward sim zen3` and eight
    /// options of 10 columns with their blank are 97 columns, and one more would be 107.
    #[test]
    fn commands_are_broken_before_options() {
        let command = |options: usize| format!("nodeward sim zen3{}", " --set a=b".repeat(options));
        assert_eq!(command_lines(&command(8)), [command(8)]);
        assert_eq!(command_lines(&command(10)), [&command(8), "  --set a=b --set a=b"]);
        assert_eq!(command_lines("nodeward sim"), ["nodeward sim"]);
    }
}
