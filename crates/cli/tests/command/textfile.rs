//! Metrics as a textfile: who may read it, and what happens where it cannot be written.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use nodeward_linux::test_wait::wait_until;
use rustix::process::Signal;

use crate::balance_daemon::{DaemonProcess, command};
use crate::outcome::assert_failure;

/// The same command, started by a shell that does something first.
fn after(script: &str, command: &Command, dir: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{script}; exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.env("NODEWARD_STATE_DIR", dir.join("state")).env("DIR", dir.join("metrics"));
    shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

/// Goal: the textfile has the metrics of the rounds and may be read by everybody, though the umask
/// of the unit forbids that; at the end it is gone, and nothing else is there.
#[test]
fn a_daemon_writes_its_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = dir.path().join("metrics");
    std::fs::create_dir(&metrics).unwrap();
    let path = metrics.join("nodeward.prom");
    let mut balance = command(dir.path());
    balance.arg("--textfile").arg(&path);
    let daemon = DaemonProcess::start(after("umask 077", &balance, dir.path()));
    wait_until("the textfile is there", || path.exists());
    let told = std::fs::read_to_string(&path).unwrap();
    assert!(told.contains("\nnodeward_rounds_total{kind=\"full\"} 1\n"), "{told}");
    assert!(!told.contains("nodeward_up") && !told.contains("nodeward_agent"), "{told}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().0, Some(0));
    assert_eq!(metrics.read_dir().unwrap().count(), 0);
}

/// Goal: whoever asks for processes has the one that is balanced, this one, by its pid; whoever
/// does not ask has none.
#[test]
fn processes_are_named_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nodeward.prom");
    let decided = "\nnodeward_entities{kind=\"process\"} 1\n";
    let told = |words: &[&str]| {
        let mut balance = command(dir.path());
        balance.arg("--textfile").arg(&path).args(words);
        let daemon = DaemonProcess::start(balance);
        let read = || std::fs::read_to_string(&path).unwrap_or_default();
        wait_until("this process is decided about", || read().contains(decided));
        let told = read();
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.end().0, Some(0));
        told
    };
    let named = told(&["--metrics-processes=3"]);
    let away = format!("\nnodeward_pid_misplaced_bytes{{pid=\"{}\",name=\"", std::process::id());
    assert_eq!(named.matches("\nnodeward_pid_misplaced_bytes{").count(), 1, "{named}");
    assert!(named.contains(&away), "{named}");
    let unnamed = told(&[]);
    assert!(!unnamed.contains("nodeward_pid_"), "{unnamed}");
}

/// Goal: a directory without room is told in one line, and leaves no half of a file; when there is
/// room, the metrics come, and that is told. Balancing goes on all the time.
#[test]
fn a_full_directory_is_told_and_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = dir.path().join("metrics");
    std::fs::create_dir(&metrics).unwrap();
    let mut balance = command(dir.path());
    balance.arg("--textfile").arg(metrics.join("nodeward.prom"));
    let script = "mount -t tmpfs -o size=64k none \"$DIR\" || exit 77; \
                  head -c 64k /dev/zero >\"$DIR/filler\"";
    let shell = after(script, &balance, dir.path());
    let mut unshared = Command::new("unshare");
    unshared.args(["--map-root-user", "--mount"]).arg(shell.get_program());
    unshared.args(shell.get_args()).stdout(Stdio::piped()).stderr(Stdio::piped());
    unshared.envs(shell.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let can_mount = Command::new("unshare")
        .args(["--map-root-user", "--mount", "mount", "-t", "tmpfs", "none"])
        .arg(&metrics)
        .status();
    if !can_mount.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no file system can be mounted here");
        return;
    }
    let daemon = DaemonProcess::start(unshared);
    let told = daemon.line("metrics cannot be written to");
    assert!(told.contains("nodeward.prom") && told.contains("make room there"), "{told}");
    // The directory as the daemon sees it.
    let inside = Path::new("/proc").join(daemon.id().to_string()).join("root");
    let inside = inside.join(metrics.strip_prefix("/").unwrap());
    assert_eq!(inside.read_dir().unwrap().count(), 1, "only the filler");
    daemon.round();
    std::fs::remove_file(inside.join("filler")).unwrap();
    let line = daemon.line("metrics ");
    assert!(line.contains("nodeward.prom again"), "told twice: {line}");
    let told = std::fs::read_to_string(inside.join("nodeward.prom")).unwrap();
    assert!(told.contains("nodeward_rounds_total"), "{told}");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().0, Some(0));
}

/// Goal: a path that node_exporter would not read is refused before anything begins.
#[test]
fn other_paths_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for path in ["metrics.prom", "/run/metrics", ""] {
        let refused = command(dir.path()).arg(format!("--textfile={path}")).output().unwrap();
        assert_failure(path, &refused, 2, &["an absolute path that ends in .prom"]);
    }
}
