//! Names that others choose: of processes, of mapped files, of files, cgroups and typed words. They
//! are bytes. No verb prints one in a form that a terminal or a log interprets, nor fails because
//! of it.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nodeward_model::{Escape as _, Name, Pid, ProcessIdentity};
use nodeward_records::ledger::{Header, LedgerStore, OperationCause, StoreLimits};

use crate::outcome::NODEWARD;
use crate::terminal::TestTerminal;

/// Set for the process that the tests examine.
const PART: &str = "NODEWARD_TEST_PART";

/// Fourteen of the fifteen bytes that the kernel keeps: colours, a line feed and a journald level,
/// a bell, an invalid UTF-8 byte, a backslash, and a trailing blank.
const NAME: &[u8] = b"\x1b[31m\n<0>\x07\xff\\x ";

/// The same in escaped form.
const SHOWN: &str = r"\x1b[31m\x0a<0>\x07\xff\\x ";

/// Returns whether a terminal interprets a character, besides those that separate lines and
/// columns.
fn is_obeyed(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || ['\u{202e}', '\u{2066}', '\u{200b}', '\u{2028}'].contains(&c)
}

/// A process whose name is a letter and that, so that no other test's process has it, which runs a
/// file of that name, and maps another, in 32 MiB of memory.
struct HostileProcess {
    letter: char,
    child: Child,
    folder: tempfile::TempDir,
}

impl HostileProcess {
    fn start(letter: char) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = [&[letter as u8], NAME].concat();
        let program = folder.path().join(OsStr::from_bytes(&name));
        // The copy is made by another process: a file that we had open for writing, as a child of a
        // concurrent test may inherit it, cannot be executed (ETXTBSY).
        let mut copy = Command::new("cp");
        copy.arg("--").arg(std::env::current_exe().unwrap()).arg(&program);
        assert!(copy.status().unwrap().success());
        let mut command = Command::new(&program);
        command.arg0("process").env(PART, "1").args([
            "--exact",
            "hostile_names::a_process",
            "--nocapture",
        ]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("it is there")), "the process ended");
        Self { letter, child, folder }
    }

    /// Returns its name, and the same in escaped form.
    fn name(&self) -> (Vec<u8>, String) {
        ([&[self.letter as u8], NAME].concat(), format!("{}{SHOWN}", self.letter))
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn nodeward(&self, words: &[&OsStr]) -> Output {
        let mut command = Command::new(NODEWARD);
        command.args(words).env("NODEWARD_STATE_DIR", self.folder.path().join("state"));
        command.env("XDG_CONFIG_HOME", self.folder.path()).output().unwrap()
    }

    /// Returns the output of a verb, which is checked to be harmless, and its exit code.
    fn run(&self, words: &[&str]) -> (String, Option<i32>) {
        let words: Vec<_> = words.iter().map(OsStr::new).collect();
        escaped_output(self.nodeward(&words), &words)
    }
}

impl Drop for HostileProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns both streams. Checks that no byte is interpreted, and that no line begins as a name
/// wants it.
fn escaped_output(output: Output, words: &[&OsStr]) -> (String, Option<i32>) {
    let mut all = String::new();
    for stream in [output.stdout, output.stderr] {
        let text = String::from_utf8(stream).unwrap_or_else(|odd| panic!("{words:?}: {odd}"));
        assert!(!text.contains(is_obeyed), "{words:?}: {text:?}");
        assert!(!text.lines().any(|line| line.starts_with('<')), "{words:?}: {text:?}");
        all += &text;
    }
    (all, output.status.code())
}

/// The process that these tests examine; not a test itself.
#[test]
fn a_process() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    let memory = vec![1_u8; 32 << 20];
    println!("it is there, with {} bytes", memory.len());
    let mut end = String::new();
    std::io::stdin().read_line(&mut end).unwrap();
    assert!(std::hint::black_box(&memory).iter().all(|&byte| byte == 1));
}

/// Goal: a process of such a name, which maps such a file, is examined like any other, and its name
/// is shown escaped; JSON also has its bytes.
#[test]
fn looking() {
    let hostile = HostileProcess::start('a');
    let pid = hostile.pid();
    let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap();
    let (name, shown) = hostile.name();
    assert_eq!(comm.strip_suffix(b"\n"), Some(&name[..]), "the kernel calls it so");
    for words in [&["show", &pid][..], &["show", &pid, "--exact"], &["show", &pid, "--json"]] {
        let (text, code) = hostile.run(words);
        assert_eq!(code, Some(0), "{words:?}: {text}");
    }
    let (text, code) = hostile.run(&["show"]);
    assert_eq!(code, Some(0), "{text}");
    let (json, _) = hostile.run(&["show", "--json"]);
    let ranked: serde_json::Value = serde_json::from_str(&json).unwrap();
    let ranked = ranked["ranking"]["processes"].as_array().unwrap();
    let found = |pid: u32| ranked.iter().find(|process| process["pid"] == pid);
    let process = found(hostile.child.id()).unwrap_or_else(|| panic!("it is not in {json}"));
    assert_eq!(process["name"], shown);
    assert_eq!(process["name_bytes"], serde_json::json!(name));
    assert!(
        found(std::process::id()).is_none_or(|text| text.get("name_bytes").is_none()),
        "ours is text"
    );
    let (text, code) = hostile.run(&["explain", &pid]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(&format!("process {pid}")), "{text}");
    hostile.run(&["doctor"]);
}

/// Goal: a page about it is a page: its name is text there.
#[test]
fn reporting() {
    let hostile = HostileProcess::start('d');
    let file = hostile.folder.path().join("report.html");
    let file = file.to_str().unwrap();
    for words in [&["report", &hostile.pid()][..], &["report", "--system"]] {
        let words = [words, &["--for", "100ms", "--quiet", "-o", file]].concat();
        let (text, code) = hostile.run(&words);
        assert_eq!(code, Some(0), "{text}");
        let page = std::fs::read_to_string(file).unwrap();
        assert!(!page.contains(is_obeyed), "{page:?}");
        let (_, shown) = hostile.name();
        let shown = shown.replace('<', "&lt;").replace('>', "&gt;");
        assert!(page.contains(&shown), "{shown} is missing in {page}");
    }
}

/// Goal: it is balanced and moved like any other, by its pid and by its name.
#[test]
fn acting() {
    let hostile = HostileProcess::start('b');
    let pid = hostile.pid();
    let (name_bytes, shown) = hostile.name();
    let name = OsStr::from_bytes(&name_bytes);
    for how in ["--once", "--dry-run"] {
        let (text, code) = hostile.run(&["balance", how, "--pid", &pid]);
        assert_eq!(code, Some(0), "{text}");
        let words = ["balance", how, "--json", "--name"].map(OsStr::new);
        let words = [&words[..], &[name]].concat();
        let (json, code) = escaped_output(hostile.nodeward(&words), &words);
        assert_eq!(code, Some(0), "{json}");
        let round: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        let rows = round["processes"].as_array().unwrap();
        let row = rows.iter().find(|row| row["pid"] == hostile.child.id());
        let row = row.unwrap_or_else(|| panic!("it is not in {json}"));
        assert_eq!(row["name"], shown);
        assert_eq!(row["name_bytes"], serde_json::json!(name_bytes));
    }
    for who in [&[OsStr::new(&pid)][..], &[OsStr::new("--name"), name]] {
        let words = [&["move", "--quiet", "--dry-run"].map(OsStr::new)[..], who];
        let words = [&words.concat()[..], &["all", "0"].map(OsStr::new)].concat();
        let (text, code) = escaped_output(hostile.nodeward(&words), &words);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(&format!("process {pid}")), "{text}");
    }
}

/// Goal: a screen shows such a name escaped, in the list and in a closer look, and obeys none of
/// it: what is drawn before and behind it stays where it is.
#[test]
fn a_screen() {
    let hostile = HostileProcess::start('s');
    let (_, shown) = hostile.name();
    let pid = hostile.pid();
    let mut terminal = TestTerminal::start(
        &["top", "--interval", "200ms", "--sort", "pid", "--filter", &pid],
        120,
        24,
    );
    terminal.shows(&format!("{pid:>7} {}", &shown[..15]));
    terminal.shows("nodeward top, ");
    terminal.keys("\r");
    terminal.shows(&format!("process {pid} {shown}"));
    terminal.shows(&format!("process {pid} ({shown})"));
    terminal.shows("memory by part");
    assert!(terminal.text().contains(SHOWN.trim_end()), "its file: {}", terminal.text());
    terminal.keys("q");
    assert_eq!(terminal.end().code(), Some(0));
    let words = [
        "top",
        "--batch",
        "--iterations",
        "1",
        "--interval",
        "100ms",
        "--sort",
        "pid",
        "--filter",
        &pid,
    ];
    let (text, code) = hostile.run(&words);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(&shown), "{text}");
    let (json, _) = hostile.run(&[&words[..], &["--json"]].concat());
    let refresh: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(refresh["processes"][0]["name_bytes"], serde_json::json!(hostile.name().0));
}

/// Goal: an invalid typed word is named, whatever it is.
#[test]
fn errors() {
    let hostile = HostileProcess::start('c');
    let bad = "\u{1b}]0;x\u{7}\n<0>\u{202e}\u{9b}";
    let shown = r"\x1b]0;x\x07\x0a<0>\u{202e}\xc2\x9b";
    assert_eq!(bad.escaped().to_string(), shown);
    let in_between = r"\u001b]0;x\u0007"; // escaped nowhere before
    for (words, named) in [
        (&["show", bad][..], true),
        (&["explain", bad], true),
        (&["move", bad, "0", "0"], true),
        (&["move", "--name", bad, "0", "0"], true),
        (&["move", "--cgroup", bad, "0", "0"], true),
        (&["move", "--file", bad, "0"], true),
        (&["move", "1", bad, "0"], true),
        (&["move", "1", "0", "0", "--only", bad], true),
        (&["move", "1", "0", "0", "--hot", bad], false),
        (&["move", "1", "0", "0", "--machine", bad], true),
        (&["spread", "1", bad], true),
        (&["balance", "--once", "--cgroup", bad], true),
        (&["balance", "--once", "--user", bad], true),
        (&["balance", "--once", "--samples", bad], true),
        (&["ledger", bad], true),
        (&["undo", bad], true),
        (&["run", bad], false),
        (&["run", "--home", "0", "--", bad], true),
        (&["--config", bad, "config", "print"], true),
        (&["show", "--hwloc", bad], true),
        (&["show", "--synthetic", bad], true),
        (&["show", "--root", bad, "--topology"], true),
        (&["sim", bad], true),
        (&[bad], true),
    ] {
        let (text, code) = hostile.run(words);
        assert_ne!(code, Some(0), "{words:?}: {text}");
        assert!(!named || text.contains(shown) || text.contains(in_between), "{words:?}: {text}");
    }
    let odd = OsStr::from_bytes(b"7\xff");
    for words in [&["show"][..], &["explain"], &["ledger"], &["move", "0", "1"]] {
        let words: Vec<_> = words.iter().map(OsStr::new).chain([odd]).collect();
        let (text, code) = escaped_output(hostile.nodeward(&words), &words);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(r"'7\xff'"), "{text}");
    }
}

/// Goal: a variable that is not UTF-8 is reported, not taken for another.
#[test]
fn variables() {
    let mut command = Command::new(NODEWARD);
    command.args(["config", "print"]);
    command.env("NODEWARD_BALANCE_EXCEPT_NAMES", OsString::from_vec(b"db\xff".to_vec()));
    let (text, code) = escaped_output(command.output().unwrap(), &[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains(r"NODEWARD_BALANCE_EXCEPT_NAMES is wrong: 'db\xff' is not UTF-8"),
        "{text}"
    );
}

/// Goal: files of such names are found and their pages reported, and so are those that are left
/// out.
#[test]
fn files() {
    let hostile = HostileProcess::start('d');
    let folder = hostile.folder.path().join(OsStr::from_bytes(b"files\x1b\xff\n<0>"));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join(OsStr::from_bytes(NAME));
    std::fs::write(&file, [1; 8192]).unwrap();
    for path in [&folder, &file] {
        let words = ["move", "--dry-run", "--quiet", "--file"].map(OsStr::new);
        let words = [&words[..], &[path.as_os_str()], &["0", "0"].map(OsStr::new)].concat();
        let (text, code) = escaped_output(hostile.nodeward(&words), &words);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("1 looked at"), "{text}");
    }
    let missing = folder.join(OsStr::from_bytes(b"none\x07"));
    let words = ["move", "--file"].map(OsStr::new);
    let words = [&words[..], &[missing.as_os_str(), OsStr::new("0")]].concat();
    let (text, code) = escaped_output(hostile.nodeward(&words), &words);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(r"files\x1b\xff\x0a<0>/none\x07' does not exist"), "{text}");
}

/// Goal: a ledger of such a process can be listed, shown and undone, in text and in JSON without
/// loss.
#[test]
fn ledgers() {
    let hostile = HostileProcess::start('e');
    let store =
        LedgerStore::new(hostile.folder.path().join("state/ledger"), StoreLimits::default());
    let header = Header {
        page_bytes: 4096,
        began_unix_ms: 1_795_308_303_000,
        command: vec!["nodeward".into(), Name::from(NAME)],
        processes: vec![ProcessIdentity {
            pid: Pid::new(Pid::LIMIT).unwrap(),
            name: NAME.into(),
            boot_id: "b".to_owned(),
            started_ticks: 1,
            auxv_checksum: 1,
        }],
        undoes: None,
    };
    drop(store.begin(&header).unwrap());
    let why = OperationCause {
        requested_by: "balance".into(),
        reason: "pays".into(),
        explanation: "saves".into(),
    };
    drop(store.begin_with_cause(&header, Some(&why)).unwrap());
    for words in [&["ledger"][..], &["ledger", "1"], &["ledger", "2", "--runs"]] {
        let (text, code) = hostile.run(words);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(SHOWN), "{words:?}: {text}");
    }
    let (json, _) = hostile.run(&["ledger", "1", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(told["processes"][0]["name"], SHOWN);
    assert_eq!(told["processes"][0]["name_bytes"], serde_json::json!(NAME));
    assert_eq!(told["command_bytes"], serde_json::json!([&b"nodeward"[..], NAME]));
    let (text, code) = hostile.run(&["undo", "1"]);
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains(&format!("({SHOWN}) is gone")), "{text}");
}

/// Goal: the migratepages program prints the same for usual words, and nothing that is interpreted
/// for others.
#[test]
fn migratepages() {
    let hostile = HostileProcess::start('f');
    let link = hostile.folder.path().join("migratepages");
    std::os::unix::fs::symlink(Path::new(NODEWARD), &link).unwrap();
    let bad = OsStr::from_bytes(b"1\x1b[2J\xff\n<0>");
    let pid = OsString::from(hostile.pid());
    for words in [[bad, bad, bad], [&pid, bad, OsStr::new("0")], [OsStr::new("--\x1b"), bad, bad]] {
        let output = Command::new(&link).args(words).output().unwrap();
        // Its own message begins with the bracket.
        let stdout = output.stdout.strip_prefix(b"<").unwrap_or(&output.stdout).to_vec();
        let (text, code) = escaped_output(Output { stdout, ..output }, &words);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("usage: ") || text.contains(r"\x1b"), "{text}");
    }
}
