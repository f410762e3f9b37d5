//! What the command gave, checked.

use std::fmt::Debug;
use std::process::Output;

/// The command.
pub const NODEWARD: &str = env!("CARGO_BIN_EXE_nodeward");

/// Returns standard output after a success.
pub fn success(words: impl Debug, output: Output) -> String {
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{words:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that the command ended with a code and that standard error has some texts. Returns it.
pub fn assert_failure(words: impl Debug, output: &Output, code: i32, texts: &[&str]) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
    for text in texts {
        assert!(stderr.contains(text), "{words:?}: '{text}' is missing in: {stderr}");
    }
    stderr
}
