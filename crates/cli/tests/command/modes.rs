//! With a umask of 0, requested output files are readable by everyone and writable by their owner
//! only, and nodeward's own state is private to its owner. (The daemon's files: `balance_daemon`.)

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::NODEWARD;

/// Two nodes of two CPUs; a program streams through the memory of the other node.
const SMALL: &str = include_str!("small.toml");

fn run(dir: &Path, words: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\"", NODEWARD]).args(words.split_whitespace());
    command.current_dir(dir).env("NODEWARD_STATE_DIR", dir.join("state"));
    let output = command.env("NODEWARD_CONFIG", "/dev/null").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {told}");
}

/// Returns the entries of a directory and below it.
fn all(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { [all(&path), vec![path]].concat() } else { vec![path] })
        .collect()
}

/// Goal: each verb that writes files or creates directories sets their mode explicitly.
#[test]
fn no_verb_leaves_the_mode_to_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = dir.path().join("small.toml");
    std::fs::write(&scenario, SMALL).unwrap();
    let verbs = [
        ("man pages/deep", "pages/deep/nodeward.1"),
        ("sim ./small.toml --trace trace.json --plot sim.svg", "trace.json"),
        ("sim sweep ./small.toml --grid machine.latency=80ns,160ns --out rows.csv", "rows.csv"),
        (
            "sim sweep ./small.toml --grid machine.latency=80ns,160ns --resume --out new.csv",
            "new.csv",
        ),
        ("sim sweep ./small.toml --grid machine.latency=80ns,160ns --plot grid.svg", "grid.svg"),
        ("sim sweep --merge rows.csv --out merged.csv", "merged.csv"),
    ];
    for (words, made) in verbs {
        run(dir.path(), words);
        assert!(dir.path().join(made).exists(), "{words}");
    }
    for path in all(dir.path()).into_iter().filter(|path| *path != scenario) {
        let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
        let expected = if path.is_dir() { 0o755 } else { 0o644 };
        assert_eq!(mode, expected, "{}", path.display());
    }
}
