//! `placement` on simulated machines and on this one, and input that it refuses.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};

use nodeward_linux::test_wait::wait_until;
use serde_json::{Value, json};

use crate::outcome::{NODEWARD, assert_failure, success};

/// A directory with files of placements.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, words: &str) -> Output {
        let mut command = Command::new(NODEWARD);
        command.arg("placement").args(words.split_whitespace()).current_dir(self.0.path());
        command.env("LC_ALL", "C").env("NODEWARD_STATE_DIR", self.0.path()).output().unwrap()
    }

    fn text(&self, words: &str) -> String {
        success(words, self.run(words))
    }

    /// Restores, and returns the report and the exit code.
    fn restore(&self, words: &str) -> (Value, Option<i32>) {
        let output = self.run(&format!("restore --json --quiet {words}"));
        let report = serde_json::from_slice(&output.stdout);
        (report.unwrap_or_else(|_| panic!("{words}: {output:?}")), output.status.code())
    }

    /// Checks the code, that standard output is empty, and that one line on stderr has these words.
    fn assert_refused(&self, words: &str, code: i32, told: &[&str]) {
        let output = self.run(words);
        let stderr = assert_failure(words, &output, code, told);
        assert!(output.stdout.is_empty(), "{words}");
        assert_eq!(stderr.lines().count(), 1, "{words}: {stderr}");
    }

    /// Replaces a text in a file, which must be there.
    fn edit(&self, file: &str, of: &str, to: &str) {
        let path = self.0.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(of), "{of} is missing in {text}");
        fs::write(path, text.replace(of, to)).unwrap();
    }
}

const SIM: &str = "--machine sim:two-socket";

/// Goal: what was saved of a simulated machine is restored on another run of it, where the memory
/// is elsewhere; a dry run tells the same and moves nothing. 256 MiB are 65,536 pages.
#[test]
fn a_process_on_another_machine() {
    let stage = Stage::new();
    let saved = stage.text(&format!("save {SIM} 1000 a"));
    insta::assert_snapshot!(saved);
    // As if an hour before, half had been on node 0.
    stage.edit("a", "[0,268435456,1]", "[0,134217728,1],[134217728,134217728,0]");
    let words = format!("{SIM} 1000 a");
    insta::assert_snapshot!(stage.text(&format!("restore {words} --dry-run")));
    let told = stage.text(&format!("restore {words} --jobs 2 --quiet"));
    let (account, time) = told.split_once("moved 128 MiB in ").expect("it moved");
    insta::assert_snapshot!(account);
    assert!(time.contains(", 2 workers)"), "{time}");
    let (report, code) = stage.restore(&words);
    assert_eq!(code, Some(0));
    assert_eq!(report["account"]["moved"], 32_768, "{report}");
    assert_eq!(report["placement"]["after_pages"], json!({"0": 32_768, "1": 32_768}));
}

/// Goal: the name of a file is bytes.
#[test]
fn a_file_whose_name_is_no_text() {
    let stage = Stage::new();
    for verb in ["save", "restore"] {
        let mut command = Command::new(NODEWARD);
        command.args(["placement", verb, "--machine", "sim:two-socket", "1000"]);
        command.arg(OsStr::from_bytes(b"a\xff")).current_dir(stage.0.path());
        success(verb, command.output().unwrap());
    }
    assert!(stage.0.path().join(OsStr::from_bytes(b"a\xff")).exists());
}

/// Goal: what does not fit is told with its reason, the rest is restored, and the exit code says
/// that some is left.
#[test]
fn what_does_not_fit() {
    let stage = Stage::new();
    stage.text(&format!("save {SIM} 1000 a"));
    stage.edit("a", "[0,268435456,1]", "[0,134217728,0],[134217728,67108864,7]");
    let (report, code) = stage.restore(&format!("{SIM} 1000 a"));
    let placement = &report["placement"];
    assert_eq!((code, &report["account"]["moved"]), (Some(1), &json!(32_768)), "{report}");
    assert_eq!(placement["missing_node_pages"], json!({"7": 16_384}), "{report}");
    assert_eq!(placement["not_saved_pages"], 16_384, "{report}");
    stage.edit("a", "\"bytes\":268435456", "\"bytes\":268435457");
    let (report, code) = stage.restore(&format!("{SIM} 1000 a"));
    let unmatched = json!([{
        "pid": 1000, "kind": "anonymous", "name": "", "pages": 49_152, "reason": "none-alike",
    }]);
    assert_eq!((code, &report["placement"]["unmatched"]), (Some(3), &unmatched), "{report}");
    let told = stage.run(&format!("restore {SIM} 1000 a --dry-run"));
    insta::assert_snapshot!(success("", told));
}

/// Goal: only threads of which that is requested are placed; a plan places none.
#[test]
fn threads_on_request() {
    let stage = Stage::new();
    stage.text(&format!("save {SIM} 1000 a"));
    let threads = |words: &str| {
        let (report, code) = stage.restore(&format!("{SIM} 1000 a {words}"));
        (report["placement"]["threads"].clone(), code)
    };
    assert_eq!(threads(""), (Value::Null, Some(0)));
    let bound = json!([{"pid": 1000, "name": "stream", "outcome": "bound"}]);
    assert_eq!(threads("--threads"), (bound.clone(), Some(0)));
    assert_eq!(threads("--threads --dry-run"), (bound, Some(0)));
    stage.edit("a", "{\"name\":\"stream\",\"node\"", "{\"name\":\"wal\",\"node\"");
    let gone = json!([{"pid": 1000, "name": "wal", "outcome": "none-alike"}]);
    assert_eq!(threads("--threads"), (gone, Some(1)), "one thread is left");
}

/// A process of this machine that ends with the test.
pub struct Sleeper(Child);

impl Sleeper {
    pub fn start() -> Self {
        let mut child = Command::new("cat");
        let child = child.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let comm = format!("/proc/{}/comm", child.id());
        wait_until("it is no copy of this program", || fs::read(&comm).unwrap() == b"cat\n");
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Goal: a program of this machine is saved and restored after its restart: with one node nothing
/// has to move. The file is its owner's. Another program is refused unless forced, and one that
/// ended is gone.
#[test]
fn a_program_of_this_machine() {
    let stage = Stage::new();
    let first = Sleeper::start();
    stage.text(&format!("save {} p", first.pid()));
    let mode = fs::metadata(stage.0.path().join("p")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let pid = first.pid();
    drop(first);
    stage.assert_refused(&format!("restore {pid} p"), 5, &["is gone"]);
    stage.assert_refused(&format!("save {pid} p"), 5, &["is gone"]);
    let own = std::process::id();
    let told = ["and the placement is of cat (", "--force restores it all the same"];
    stage.assert_refused(&format!("restore {own} p"), 2, &told);
    let (report, _) = stage.restore(&format!("{own} p --force --dry-run"));
    assert_eq!(report["schema"], "nodeward.plan/1");
    let second = Sleeper::start();
    let (report, _) = stage.restore(&format!("{} p", second.pid()));
    assert_eq!(report["schema"], "nodeward.move/1", "{report}");
}

/// Goal: files that are no placements are refused by restore, and not overwritten by save.
#[test]
fn wrong_files() {
    let stage = Stage::new();
    let sim = format!("{SIM} 1000");
    let restore = |file: &str, told: &[&str]| {
        stage.assert_refused(&format!("restore {sim} {file}"), 2, told);
    };
    restore("none", &["cannot read none", "No such file"]);
    restore(".", &["cannot read .", "a directory"]);
    fs::write(stage.0.path().join("letter"), "Dear Ada").unwrap();
    restore("letter", &["letter is no placement; name a file that nodeward placement save wrote"]);
    let save = format!("save {sim} letter");
    stage.assert_refused(&save, 2, &["is there and is no placement; choose another name"]);
    assert_eq!(fs::read(stage.0.path().join("letter")).unwrap(), b"Dear Ada");
    stage.assert_refused(&format!("save {sim} no/a"), 2, &["cannot write no/a"]);
    stage.assert_refused(&format!("save {sim} /dev/null"), 2, &["choose another name"]);
    stage.text(&format!("save {sim} a"));
    let text = fs::read(stage.0.path().join("a")).unwrap();
    fs::write(stage.0.path().join("half"), &text[..text.len() / 2]).unwrap();
    restore("half", &["half is cut short; save the placement again"]);
    stage.edit("a", "placement/1", "placement/9");
    restore("a", &["a has version 9 and this nodeward reads version 1"]);
    stage.text(&format!("save {sim} a"));
    stage.edit("a", "[[0,268435456,1]]", "[[0,5,1],[4,1,1]]");
    restore("a", &["a is wrong (the run [4, 1, 1] is not behind the one before)"]);
    let left = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut left: Vec<_> = fs::read_dir(stage.0.path()).unwrap().map(left).collect();
    left.sort();
    assert_eq!(left, ["a", "half", "letter"], "nothing half done is left");
}

/// Goal: processes that are missing, too many or not named, and other programs, are reported.
#[test]
fn wrong_processes() {
    let stage = Stage::new();
    stage.text(&format!("save {SIM} 1000 a"));
    stage.assert_refused(&format!("save {SIM} a"), 2, &["no process is named"]);
    stage.assert_refused(&format!("restore {SIM} a"), 2, &["no process is named"]);
    stage.assert_refused(&format!("restore {SIM} x a"), 2, &["is not a process id"]);
    stage.assert_refused(&format!("restore {SIM} 7 a"), 5, &["process 7 is gone"]);
    let told = ["the placement of 1 processes (stream), and 2 are named; name as many"];
    stage.assert_refused(&format!("restore {SIM} 1000 1001 a"), 2, &told);
    stage.edit("a", "\"pid\":1000,\"name\":\"stream\"", "\"pid\":1000,\"name\":\"db\"");
    let told = ["process 1000 is stream, and the placement is of db; --force"];
    stage.assert_refused(&format!("restore {SIM} 1000 a"), 2, &told);
    assert_eq!(stage.restore(&format!("{SIM} 1000 a --force")).1, Some(0));
    assert_failure("", &stage.run("restore"), 2, &["PID... FILE"]);
}
