//! What a person or a log is told on standard error.

use nodeward_model::name::harmless;

/// Writes a line on standard error at once: a log that others write to or read has no half of it.
/// Where that takes nothing there is no other place to say so, and the work goes on.
/// Further lines of one message are indented: in a journal a line that somebody's words begin could
/// pass for another message.
macro_rules! say {
    ($($words:tt)*) => {
        std::io::Write::write_all(
            &mut std::io::stderr().lock(),
            $crate::say::one_message(&format!($($words)*)).as_bytes(),
        )
        .unwrap_or_default()
    };
}

/// A message, with its end.
pub fn one_message(words: &str) -> String {
    harmless(words).replace('\n', "\n  ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no words begin a line of a log but ours, and none are obeyed by a terminal.
    #[test]
    fn a_message_is_one() {
        assert_eq!(one_message("nodeward: b\u{fc}\tis gone"), "nodeward: b\u{fc}\tis gone\n");
        let told = one_message("nodeward: a\n<0>kernel: panic\r\x1b[2J");
        assert_eq!(told, "nodeward: a\n  <0>kernel: panic\\u000d\\u001b[2J\n");
    }
}
