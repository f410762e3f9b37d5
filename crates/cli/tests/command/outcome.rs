//! What the command gave, checked.

use std::fmt::Debug;
use std::process::{Command, Output};

use serde_json::Value;

/// The command.
pub const NODEWARD: &str = env!("CARGO_BIN_EXE_nodeward");

/// Returns whether all of a kind are tried, not one of them: with `NODEWARD_TESTS=long`, as `make
/// test-long` sets it.
pub fn is_long() -> bool {
    std::env::var_os("NODEWARD_TESTS").is_some_and(|extent| extent == "long")
}

/// Runs the command on a simulated machine. Checks that it writes no ledger.
pub fn run_simulated(words: &str) -> Output {
    let mut command = Command::new(NODEWARD);
    command.args(words.split_whitespace()).env("LC_ALL", "C");
    let nowhere = tempfile::tempdir().unwrap();
    let output = command.env("NODEWARD_STATE_DIR", nowhere.path()).output().unwrap();
    let written = nowhere.path().read_dir().unwrap().count();
    assert_eq!(written, 0, "{words}: no ledger for what is not there afterwards");
    output
}

/// Runs a command that ends with this code on a simulated machine, and returns its JSON.
pub fn simulated_json(words: &str, code: i32) -> Value {
    let output = run_simulated(words);
    assert_eq!(output.status.code(), Some(code), "{words}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

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
