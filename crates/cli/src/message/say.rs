//! Messages to people or logs on standard error.

use nodeward_model::name::sanitize_for_terminal;

/// Writes a line to standard error in one call, so that a log with other writers or readers has no
/// half lines. An error of that write is ignored: there is no other place to report it, and the
/// work goes on. Further lines of one message are indented, because in a journal a line that begins
/// with foreign text could be mistaken for another message.
macro_rules! say {
    ($($words:tt)*) => {
        std::io::Write::write_all(
            &mut std::io::stderr().lock(),
            $crate::message::say::format_message(&format!($($words)*)).as_bytes(),
        )
        .unwrap_or_default()
    };
}

/// Formats a message, with its line end.
pub fn format_message(words: &str) -> String {
    sanitize_for_terminal(words).replace('\n', "\n  ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: only our words begin a line of a log, and a terminal interprets none of them.
    #[test]
    fn a_message_is_one() {
        assert_eq!(format_message("nodeward: b\u{fc}\tis gone"), "nodeward: b\u{fc}\tis gone\n");
        let told = format_message("nodeward: a\n<0>kernel: panic\r\x1b[2J");
        assert_eq!(told, "nodeward: a\n  <0>kernel: panic\\u000d\\u001b[2J\n");
    }
}
