//! `top`: on a terminal, and line by line.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Signal, test_kill_process};
use serde_json::Value;

use crate::outcome::{NODEWARD, assert_failure, run_simulated, success};
use crate::terminal::TestTerminal;

/// Two processes with 512 MiB each, whose threads and memory are apart, and that go on and on.
const SIMULATED: &str = "top --machine sim:lab-crossed --interval 200ms \
                         --set workload.left.passes=100000 --set workload.right.passes=100000";
/// The documented code of an end by a signal.
const INTERRUPTED: i32 = 130;

fn simulated(columns: u16, rows: u16) -> TestTerminal {
    let words: Vec<&str> = SIMULATED.split_whitespace().collect();
    let mut terminal = TestTerminal::start(&words, columns, rows);
    terminal.shows("nodeward top of sim:lab-crossed");
    terminal
}

/// The row of the cursor: it is shown in reverse.
fn cursor_row(screen: &vt100::Screen) -> Option<u16> {
    let is_reverse = |row: &u16| screen.cell(*row, 0).is_some_and(vt100::Cell::inverse);
    (0..screen.size().0.get()).find(is_reverse)
}

/// Goal: on the smallest usual terminal nodes and processes are shown; keys move the cursor,
/// filter, look closer, show the keys, and end it with success and the terminal as it was.
#[test]
fn keys() {
    let mut terminal = simulated(80, 24);
    terminal.shows("NODE CPUS");
    terminal.shows("1000 ");
    // A header, four rows for two nodes, and heads are above the rows.
    terminal.wait("the first row", |screen| cursor_row(screen) == Some(6));
    terminal.keys("\x1b[F"); // End
    terminal.wait("the last row", |screen| cursor_row(screen) == Some(7));
    terminal.keys("/1000");
    terminal.shows("filter: 1000_");
    terminal.hides("1001 ");
    terminal.keys("\r");
    terminal.shows("with '1000'");
    terminal.keys("\r");
    terminal.shows("process 1000 left");
    terminal.shows("memory by part");
    terminal.keys("?");
    terminal.shows("KEYS");
    terminal.keys("\x1b");
    terminal.hides("KEYS");
    terminal.keys("\x1b");
    terminal.shows("1001 ");
    terminal.shows("by cpu");
    terminal.keys("s");
    terminal.hides("by cpu");
    terminal.keys("g");
    terminal.shows("no groups");
    terminal.keys("q");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.is_restored();
}

/// Goal: a terminal may shrink to nothing and grow again; then everything is there.
#[test]
fn sizes() {
    let mut terminal = simulated(80, 24);
    terminal.shows("1000 ");
    for (columns, rows) in [(20, 5), (1, 1), (0, 0), (7, 0), (0, 9)] {
        terminal.resize(columns, rows);
        terminal.keys("jk");
    }
    terminal.resize(120, 40);
    terminal.shows("NOW, AND WHY");
    terminal.shows("1000 ");
    terminal.resize(80, 24);
    terminal.shows("HISTORY OF USE");
    terminal.keys("\x03");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.is_restored();
}

/// Goal: a move is planned, asked about, made, and told with what happened: of 1000 its 512 MiB on
/// node 1; a plan that is refused moves nothing. What cannot be done is said in a line.
#[test]
fn a_move() {
    let mut terminal = simulated(100, 24);
    terminal.shows("1000 ");
    terminal.keys("/1000\r");
    let order = |terminal: &mut TestTerminal, nodes: &str| {
        terminal.keys("m");
        terminal.shows("FROM TO:");
        terminal.keys(&"\x7f".repeat(20));
        terminal.keys(&format!("{nodes}\r"));
    };
    order(&mut terminal, "1 5");
    terminal.shows("TO is '5'");
    order(&mut terminal, "1");
    terminal.shows("give two words");
    order(&mut terminal, "1 0");
    terminal.shows("Move 512 MiB of process 1000");
    terminal.keys("n");
    terminal.shows("nothing was moved");
    order(&mut terminal, "1 0");
    terminal.shows("512 MiB from node 1 to node 0, 131072 pages");
    terminal.keys("y");
    terminal.shows("moved 512 MiB of process 1000");
    order(&mut terminal, "1 0");
    terminal.shows("nothing of process 1000");
    terminal.keys("u");
    terminal.shows("nothing that this screen moved can be taken back");
    terminal.keys("q");
    assert_eq!(terminal.end().code(), Some(0));
}

/// Goal: signals end it in order, with their code and the terminal as it was.
#[test]
fn signals() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut terminal = simulated(80, 24);
        terminal.signal(signal);
        assert_eq!(terminal.end().code(), Some(INTERRUPTED), "{signal:?}");
        terminal.is_restored();
    }
}

/// Goal: when its terminal is closed it ends, and nothing of it is left.
#[test]
fn a_terminal_that_is_closed() {
    let mut terminal = simulated(80, 24);
    terminal.shows("1000 ");
    let pid = terminal.pid();
    terminal.close();
    assert_eq!(terminal.end().code(), Some(INTERRUPTED));
    assert!(test_kill_process(pid).is_err(), "it is gone");
}

/// Goal: a process that ends while it is looked at is told to be gone, and nothing else happens.
#[test]
fn a_process_that_ends() {
    let mut sleeper = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = sleeper.id().to_string();
    let words = ["top", "--interval", "200ms", "--sort", "pid", "--filter", &pid];
    let mut terminal = TestTerminal::start(&words, 80, 24);
    terminal.shows("sleep");
    terminal.keys("\r");
    terminal.shows("memory by part");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    terminal.shows(&format!("process {pid} is gone"));
    terminal.keys("m");
    terminal.keys("0 0\r");
    let gone = format!("process {pid} is gone");
    terminal.wait("the plan fails", |screen| {
        screen.rows(0, 80).last().is_some_and(|bottom| bottom.contains(&gone))
    });
    terminal.keys("q");
    assert_eq!(terminal.end().code(), Some(0));
}

/// Goal: without a terminal one error names what to do; so it does for a terminal that shows no
/// screen, and for options that need --batch.
#[test]
fn no_terminal() {
    let output = Command::new(NODEWARD).arg("top").stdin(Stdio::null()).output().unwrap();
    let told = assert_failure("top", &output, 2, &["must be a terminal", "--batch"]);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(output.stdout.is_empty());
    let mut dumb = Command::new(NODEWARD);
    dumb.arg("top").env("TERM", "dumb");
    let mut terminal = TestTerminal::run(&dumb, 80, 24);
    assert_eq!(terminal.end().code(), Some(2));
    terminal.is_restored();
    for words in [
        "top --iterations 1",
        "top --json",
        "top --batch --interval 1ms",
        "top --batch --iterations 0",
        "top --batch --agent --machine sim:two-socket",
    ] {
        let output = run_simulated(words);
        assert_failure(words, &output, 2, &["--"]);
    }
    let nowhere = Command::new(NODEWARD)
        .args(["top", "--batch", "--iterations", "1", "--agent=/nowhere/socket"])
        .output();
    assert_failure("--agent", &nowhere.unwrap(), 3, &["no agent answers at"]);
}

/// Goal: a refresh of a simulated machine is the same text each time.
#[test]
fn a_refresh_as_text() {
    let words = "top --batch --machine sim:lab-crossed --iterations 2";
    let text = success(words, run_simulated(words));
    insta::assert_snapshot!(text);
    assert_eq!(success(words, run_simulated(words)), text);
}

/// Goal: each refresh is one JSON object, filtered and sorted as asked.
#[test]
fn refreshes_as_json() {
    let words =
        "top --batch --json --machine sim:lab-crossed --iterations 2 --sort pid --filter 100";
    let text = success(words, run_simulated(words));
    let refreshes: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(refreshes.len(), 2, "{text}");
    for refresh in &refreshes {
        assert_eq!(refresh["schema"], "nodeward.top/1");
        assert_eq!(refresh["decided_by"], "dry-run");
        assert_eq!(refresh["processes"][0]["pid"], 1000);
        let bytes = &refresh["processes"][0]["residency"]["bytes"]["1"];
        assert_eq!(bytes.as_u64(), Some(512 << 20), "{refresh}");
    }
    assert_eq!(
        refreshes[1]["at_ns"]
            .as_u64()
            .zip(refreshes[0]["at_ns"].as_u64())
            .map(|(later, earlier)| later - earlier > 900_000_000),
        Some(true)
    );
}

/// Goal: what belongs to others is unknown, not 0, and the missing privilege is named.
#[test]
fn processes_of_others() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: another user needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("nodeward");
    assert!(Command::new("cp").arg(NODEWARD).arg(&program).status().unwrap().success());
    let us = std::process::id().to_string();
    let mut command = Command::new(&program);
    command.args(["top", "--batch", "--json", "--iterations", "1", "--interval", "100ms"]);
    command.args(["--filter", &us]).env("HOME", folder.path()).uid(54_321).gid(54_321);
    let text = success("as another user", command.output().unwrap());
    let refresh: Value = serde_json::from_str(&text).unwrap();
    let rows = refresh["processes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["pid"] == std::process::id()).unwrap();
    for unknown in ["memory_bytes", "residency", "cpu_ppm", "decision", "bytes_away"] {
        assert!(row[unknown].is_null(), "{unknown}: {row}");
    }
    assert!(row["denied"].as_str().is_some_and(|need| !need.is_empty()), "{row}");
    assert!(row["name"].as_str().is_some_and(|name| !name.is_empty()), "{row}");
}
