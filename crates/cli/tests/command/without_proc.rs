//! On a machine, or in a container, without /proc.

use std::process::Command;

use crate::outcome::NODEWARD;

/// Goal: where /proc is not mounted, that is told, and no process is said to be gone. What /sys
/// tells alone is answered.
#[test]
fn its_absence_is_told() {
    let run = |words: &str| {
        let script = format!("mount -t tmpfs none /proc || exit 77; exec {NODEWARD} {words}");
        Command::new("unshare").args(["--map-root-user", "--mount", "sh", "-c", &script]).output()
    };
    // By unshare, or the mount.
    let is_refused = |code| matches!(code, Some(1 | 77));
    match run("show --topology") {
        Ok(told) if !is_refused(told.status.code()) => assert!(told.status.success(), "{told:?}"),
        _ => {
            eprintln!("skipped: no file system can be mounted here");
            return;
        }
    }
    for words in ["show $$", "move $$ 0 0", "explain $$", "balance --once", "spread $$ 0"] {
        let output = run(words).unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("cannot read /proc/"), "{words}: {output:?}");
        assert!(told.contains("check that /proc and /sys are mounted"), "{words}: {output:?}");
        assert_eq!(told.lines().count(), 1, "{words}: {told}");
    }
}
