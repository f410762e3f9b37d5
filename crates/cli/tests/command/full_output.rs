//! Output that cannot be written: a full disk, and a pipe whose reader has gone.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};

use crate::outcome::NODEWARD;

/// The documented code for a machine that failed.
const FAILED: i32 = 6;
const MOVE: &str = "move --machine sim:two-socket 1000 1 0 --quiet";

/// A command for each verb that answers on standard output, and soon.
pub const QUESTIONS: [&str; 40] = [
    "--help",
    "--version",
    "move --help",
    MOVE,
    "move --machine sim:two-socket 1000 1 0 --dry-run --json",
    "evacuate --machine sim:two-socket 1 --quiet",
    "evacuate --machine sim:two-socket 1 --dry-run --json",
    "spread --machine sim:two-socket 1000 0,1 --quiet",
    "spread --machine sim:two-socket 1000 0,1 --dry-run --json",
    "placement restore --machine sim:two-socket 1000 tests/command/two-socket.placement --dry-run",
    "balance --machine sim:balance-2012 --once",
    "balance --machine sim:balance-2012 --once --dry-run --json",
    "balance --machine sim:balance-2012 --json",
    "config print",
    "ledger",
    "show --machine sim:two-socket",
    "show --machine sim:two-socket 1001 --json",
    "show --topology",
    "show -H",
    "capture",
    "doctor",
    "doctor --json",
    "bench --help",
    "sim --list",
    "sim two-socket --limit 1ms",
    "sim sweep two-socket --grid machine.latency=80ns --dry-run",
    "sim compare --figure static --seeds 1 --print",
    "sim swarm --seed 1 --print",
    "reproduce --help",
    "show --devices",
    "group propose 1000 --machine sim:balance-grouped",
    "report --system --machine sim:two-socket --for 1s -o -",
    "explain pinned",
    "export --help",
    "pcp show",
    "pcp watch --rounds 1 --interval 100ms",
    "pcp restore",
    "completions bash",
    "top --batch --machine sim:two-socket --iterations 1",
    "watch --rounds 1 --interval 100ms",
];
/// Verbs that print nothing on standard output themselves.
const SILENT: [&str; 4] = ["undo", "run", "man", "help"];

/// Returns the command with these words, and with a place for its messages.
pub fn command(words: &str) -> Command {
    let mut command = Command::new(NODEWARD);
    command.args(words.split_whitespace()).env("NODEWARD_STATE_DIR", "/nonexistent");
    command.env("LC_ALL", "C").stderr(Stdio::piped());
    command
}

fn on_full_disk(command: &mut Command) -> Output {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    command.stdout(full).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn check_full(words: &str, output: &Output) {
    let told = stderr(output);
    assert_eq!(output.status.code(), Some(FAILED), "{words}: {told}");
    let last = told.lines().last().unwrap_or_default();
    assert!(last.contains("cannot write to standard output"), "{words}: {told}");
    assert!(last.contains("No space left on device"), "{words}: {told}");
}

/// Goal: a full disk is a failure of the machine, not a mistake on the command line, whatever the
/// verb.
#[test]
fn no_verb_takes_a_full_disk_for_bad_input() {
    for words in QUESTIONS {
        check_full(words, &on_full_disk(&mut command(words)));
    }
}

/// Goal: a new verb must be added here, too.
#[test]
fn every_verb_is_asked() {
    let help = Command::new(NODEWARD).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = verbs.take_while(|line| !line.is_empty());
    let verbs: BTreeSet<&str> = verbs
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let asked = QUESTIONS.iter().filter_map(|words| words.split_whitespace().next());
    let asked: BTreeSet<&str> = asked.filter(|word| !word.starts_with('-')).chain(SILENT).collect();
    assert_eq!(verbs, asked);
}

/// A process whose memory can be moved, as long as the value lives.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).unwrap();
    }
}

/// Goal: the account of a move is reported, if need be on standard error: of processes and of
/// files, here and on simulated machines.
#[test]
fn an_account_is_never_lost() {
    let told = stderr(&on_full_disk(&mut command(MOVE)));
    assert!(told.contains("moved 256 MiB in "), "{told}");
    let sleeper = Sleeper::start();
    let words = format!("move {} 0 0 --quiet --no-ledger", sleeper.0.id());
    let output = on_full_disk(&mut command(&words));
    check_full(&words, &output);
    assert!(stderr(&output).contains("pages: "), "{}", stderr(&output));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), [7; 5000]).unwrap();
    let mut moving = command("move --quiet 0 0 --json --file");
    let output = on_full_disk(moving.arg(folder.path()));
    check_full("move --file", &output);
    assert!(stderr(&output).contains(r#""schema":"nodeward.files/1""#), "{}", stderr(&output));
}

/// Goal: a full standard error stops nothing.
#[test]
fn a_full_log_stops_nobody() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let words = "balance --machine sim:balance-2012 --for 2s";
    let status = command(words).stdout(Stdio::null()).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

/// Runs with a standard output whose reader has gone.
fn unread(words: &str) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command(words).stdout(writer).output().unwrap()
}

/// Goal: a broken pipe ends the program silently, by SIGPIPE as for other programs. The account of
/// a move is reported all the same.
#[test]
fn a_reader_that_went_away() {
    for words in
        ["show --topology", "--help", "balance --machine sim:balance-2012 --dry-run --json"]
    {
        let output = unread(words);
        assert_eq!(output.status.signal(), Some(13), "{words}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{words}");
    }
    let output = unread(MOVE);
    assert_eq!(output.status.signal(), Some(13), "{}", stderr(&output));
    assert!(stderr(&output).contains("moved 256 MiB in "), "{}", stderr(&output));
}
