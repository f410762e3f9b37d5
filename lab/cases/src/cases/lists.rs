//! Pages named by lists of addresses.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{Pid, Range};
use rustix::process::{Signal, kill_process};
use serde::Deserialize;

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{UNPRIVILEGED_USER, kib, read, wait_until};
use crate::load::LoadProcess;
use crate::nodeward::{CommandOutput, move_load, move_load_as, skip_counts};

pub const CASES: [(&str, CaseFn); 6] = [
    ("list_as_text", as_text),
    ("list_as_binary", as_binary),
    ("list_of_physical_addresses", of_physical_addresses),
    ("list_of_huge_pages", of_huge_pages),
    ("list_that_is_wrong", that_is_wrong),
    ("list_without_end", without_end),
];

const PAGE: u64 = 4096;
const LIST: &str = "/tmp/list";

/// The reported counts of a list's entries.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct ListReport {
    read: u64,
    pages: u64,
    duplicates: u64,
    outside: u64,
    moved: u64,
    failed: u64,
}

fn counts(finished: &CommandOutput) -> ListReport {
    #[derive(Deserialize)]
    struct ReportWithList {
        list: ListReport,
    }
    finished.json::<ReportWithList>().list
}

/// Returns every third page of a load, from the last to the first.
fn every_third(load: &LoadProcess) -> Vec<u64> {
    let pages = load.range().step_by(3 * PAGE as usize);
    pages.collect::<Vec<_>>().into_iter().rev().collect()
}

fn as_lines(addresses: &[u64]) -> String {
    addresses.iter().map(|address| format!("{address:x}\n")).collect()
}

/// Goal: exactly the named pages move; every entry is counted, whatever it names.
fn as_text() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 32MiB");
    let named = every_third(&load);
    let pages = named.len() as u64;
    let again = as_lines(&named[..5]).replace('\n', " # the same page again\n");
    let nowhere = "0x0\n\n10000\nffffffffffffffff\n";
    std::fs::write(LIST, as_lines(&named) + &again + nowhere).expect("a list");
    let finished = move_load(&load, &format!("1 --addresses {LIST}"));
    let report = finished.report_after_exit(1);
    assert_eq!((report.account.moved, report.account.skipped_total()), (pages, 0), "{report:?}");
    let expected =
        ListReport { read: pages + 8, pages, duplicates: 5, outside: 3, moved: pages, failed: 3 };
    assert_eq!(counts(&finished), expected);
    assert_eq!(load.memory_by_node()[&1], pages);
    let only = format!("0 1 --addresses {LIST}");
    assert_eq!(move_load(&load, &only).report_after_exit(1).account.already_there, pages);
    load.end();
    Ok(())
}

/// Goal: the same list works as binary on standard input.
fn as_binary() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 8MiB");
    let named = every_third(&load);
    let bytes: Vec<u8> = named.iter().flat_map(|address| address.to_le_bytes()).collect();
    std::fs::write(LIST, bytes).expect("a list");
    let mut command = Command::new("nodeward");
    command.args(["move", "--json", &load.pid().to_string(), "1", "--addresses", "-"]);
    let finished = crate::nodeward::run_command(command.stdin(File::open(LIST).expect("the list")));
    assert_eq!(finished.report_after_exit(0).account.moved, named.len() as u64);
    assert_eq!(load.memory_by_node()[&1], named.len() as u64);
    load.end();
    Ok(())
}

/// Goal: frames are found at their addresses; those of other processes, and unused ones, are
/// reported.
fn of_physical_addresses() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 32MiB --threads 0");
    let other = LoadProcess::start("--node 0 --size 1MiB --threads 0");
    let named: Vec<u64> = frames(&load).into_iter().step_by(2).collect();
    let foreign = frames(&other)[0];
    let pages = named.len() as u64;
    let list = as_lines(&named) + &as_lines(&[named[0] + 5, foreign, 1 << 60]);
    std::fs::write(LIST, list).expect("a list");
    let finished = move_load(&load, &format!("1 --addresses {LIST} --physical"));
    assert_eq!(finished.report_after_exit(1).account.moved, pages);
    let expected =
        ListReport { read: pages + 3, pages, duplicates: 1, outside: 2, moved: pages, failed: 2 };
    assert_eq!(counts(&finished), expected);
    assert_eq!(load.memory_by_node()[&1], pages);
    assert_eq!(other.memory_by_node().get(&1), None);
    let unprivileged = LoadProcess::start_as(UNPRIVILEGED_USER, "--node 0 --size 1MiB --threads 0");
    let words = format!("1 --addresses {LIST} --physical");
    move_load_as(UNPRIVILEGED_USER, &unprivileged, &words)
        .assert_refused(3, &["physical", "CAP_SYS_ADMIN"]);
    for load in [load, other, unprivileged] {
        load.end();
    }
    Ok(())
}

/// Returns the physical addresses of a load's pages.
fn frames(load: &LoadProcess) -> Vec<u64> {
    let process =
        Linux::open().open_process(Pid::new(load.pid()).expect("a pid")).expect("our child");
    let range = load.range();
    let mut frames = Vec::new();
    process.frames(Range::new(range.start, range.end), &mut frames).expect("we are root");
    frames.into_iter().map(|frame| frame.expect("present") * PAGE).collect()
}

/// Goal: one address of a huge page names all of it, and an untouched page is reported.
fn of_huge_pages() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 16MiB --kind thp");
    let start = load.range().start;
    let inside = [start + 7 * PAGE, start + (4 << 20) + 511 * PAGE];
    std::fs::write(LIST, as_lines(&inside)).expect("a list");
    let report = move_load(&load, &format!("1 --addresses {LIST}")).report_after_exit(0);
    assert_eq!(report.account.moved, 2 * 512, "{report:?}");
    assert_eq!(load.memory_by_node()[&1], 2 * 512);
    load.end();
    Ok(())
}

/// Goal: a list with any error moves nothing, and the place of the error is named.
fn that_is_wrong() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 4MiB --threads 0");
    let before = load.pages_by_node();
    let good = as_lines(&every_third(&load));
    let long = "7".repeat(100_000);
    for (list, words) in [
        (good.clone() + "7f00 what\n", ["line 343", "hexadecimal"]),
        (good.clone() + &long, ["line 343", "longer"]),
        (good.clone() + "12345678123456781\n", ["line 343", "hexadecimal"]),
        ("\0\0\0\0\0\0\0\0\0\0\0".to_owned(), ["byte 11", "8 bytes"]),
        (String::new(), ["names no address", "7f0000001000"]),
    ] {
        std::fs::write(LIST, list).expect("a list");
        move_load(&load, &format!("1 --addresses {LIST}")).assert_refused(2, &words);
    }
    move_load(&load, "1 --addresses /no/such/list").assert_refused(2, &["/no/such/list"]);
    move_load(&load, "0,1 --addresses /tmp/list").assert_refused(2, &["no node but TO"]);
    assert_eq!(load.pages_by_node(), before);
    std::fs::write(LIST, "1000\n2000\n").expect("a list");
    let report = move_load(&load, &format!("1 --addresses {LIST}")).report_after_exit(3);
    assert_eq!(report.account.skipped, skip_counts([]), "both lie outside: {report:?}");
    let stack = load.range().end + (1 << 30);
    std::fs::write(LIST, format!("{stack:x}")).expect("a list");
    assert_eq!(move_load(&load, &format!("1 --addresses {LIST}")).code, 3);
    load.end();
    Ok(())
}

/// Goal: an endless list, or one of a terabyte, takes no more memory than a short one, and Ctrl-C
/// ends it before anything moved.
fn without_end() -> CaseOutcome {
    let load = LoadProcess::start("--node 0 --size 4MiB --threads 0");
    let before = load.pages_by_node();
    let address = format!("{:x}", load.range().start);
    let mut endless = Command::new("yes").arg(address).stdout(Stdio::piped()).spawn().expect("yes");
    bounded(reader(&load, "-", endless.stdout.take().expect("a pipe").into()));
    endless.kill().expect("our child can be killed");
    endless.wait().expect("our child can be waited for");
    let huge = Path::new("/tmp/terabyte");
    let mut file = File::create(huge).expect("a file");
    file.write_all(&load.range().start.to_le_bytes()).expect("a word");
    file.set_len(1 << 40).expect("a sparse file");
    bounded(reader(&load, "/tmp/terabyte", Stdio::null()));
    std::fs::remove_file(huge).expect("the file");
    assert_eq!(load.pages_by_node(), before);
    load.end();
    Ok(())
}

fn reader(load: &LoadProcess, list: &str, input: Stdio) -> Child {
    let mut command = Command::new("nodeward");
    command.args(["move", &load.pid().to_string(), "1", "--addresses", list]);
    command.stdin(input).stdout(Stdio::piped()).spawn().expect("nodeward starts")
}

/// Maximum resident memory of the reader, in bytes.
const PEAK: u64 = 16 << 20;

/// Checks that a process reads more than it may keep, and keeps little.
fn bounded(mut reader: Child) {
    wait_until("it has read more than it may keep", || {
        let io = read(&format!("/proc/{}/io", reader.id()));
        let bytes = io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok());
        bytes.expect("what it has read") > PEAK
    });
    let peak = kib(&format!("/proc/{}/status", reader.id()), "VmHWM");
    assert!(peak << 10 < PEAK, "{peak} kB");
    let pid = rustix::process::Pid::from_child(&reader);
    kill_process(pid, Signal::INT).expect("our child can be signalled");
    let status = reader.wait().expect("our child can be waited for");
    assert!(!status.success(), "{status}");
}
