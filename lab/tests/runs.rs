//! A command in a guest behaves as on the host: streams, files, codes, signals, ends.

use std::path::Path;
use std::time::Duration;

use nodeward_lab::{GuestFile, GuestKernel, GuestRun, Lab, RunOutput, open_for_test, scenario};

/// Time limit, only to end a guest that hangs.
const PATIENCE: Duration = Duration::from_secs(300);

fn shell(line: &str) -> GuestRun {
    GuestRun { timeout: PATIENCE, ..GuestRun::shell(scenario("two-nodes"), line) }
}

fn program(words: &[&str]) -> GuestRun {
    GuestRun { timeout: PATIENCE, ..GuestRun::new(scenario("two-nodes"), words.iter().copied()) }
}

fn lab() -> Option<Lab> {
    open_for_test(&GuestKernel::V6_12)
}

fn stdout(finished: &RunOutput) -> String {
    String::from_utf8_lossy(&finished.stdout).into_owned()
}

#[test]
fn every_kernel_says_its_release() {
    for kernel in GuestKernel::DEBIAN {
        let Some(lab) = open_for_test(&kernel) else { continue };
        let release = lab.prepare(&kernel).unwrap();
        let finished = lab.run(&GuestRun { kernel, ..shell("uname -r") }).unwrap();
        assert_eq!(stdout(&finished), format!("{release}\n"));
    }
}

#[test]
fn a_cold_boot_gives_the_same() {
    let Some(lab) = lab() else { return };
    let run =
        GuestRun { cold: true, append: "nodeward.test=1".into(), ..shell("cat /proc/cmdline") };
    assert!(stdout(&lab.run(&run).unwrap()).contains("nodeward.test=1"));
}

#[test]
fn streams_stay_apart_and_the_code_comes_back() {
    let Some(lab) = lab() else { return };
    let finished =
        lab.run(&shell("echo out; echo err >&2; printf '\\0\\377\\r\\n'; exit 7")).unwrap();
    assert_eq!(finished.stdout, b"out\n\0\xff\r\n");
    assert_eq!(finished.stderr, b"err\n");
    assert_eq!((finished.code, finished.timed_out), (7, false));
}

#[test]
fn much_output_comes_whole() {
    let Some(lab) = lab() else { return };
    let finished = lab.run(&shell("seq 1 300000")).unwrap();
    let expected: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    assert!(stdout(&finished) == expected, "{} bytes came", finished.stdout.len());
}

#[test]
fn a_signal_is_128_and_more() {
    let Some(lab) = lab() else { return };
    assert_eq!(lab.run(&shell("kill -KILL $$")).unwrap().code, 137); // 128 + 9
}

#[test]
fn a_command_is_cut_off_when_its_time_is_over() {
    let Some(lab) = lab() else { return };
    // A machine that has no CPU for the first word within 3 s has it within one of the longer
    // times.
    let said = [3, 12, 48, 192].map(Duration::from_secs).into_iter().any(|timeout| {
        let run = GuestRun { timeout, ..shell("echo before; sleep 3600") };
        let finished = lab.run(&run).unwrap();
        assert_eq!((finished.code, finished.timed_out), (124, true));
        stdout(&finished) == "before\n"
    });
    assert!(said, "what it said before is told");
}

#[test]
fn a_child_left_behind_does_not_hold_the_run() {
    let Some(lab) = lab() else { return };
    let finished = lab.run(&shell("sleep 3600 & echo done")).unwrap();
    assert_eq!((stdout(&finished).as_str(), finished.code), ("done\n", 0));
}

#[test]
fn a_command_that_is_not_there_is_named() {
    let Some(lab) = lab() else { return };
    let why = lab.run(&program(&["no-such-program"])).unwrap_err();
    assert!(why.to_string().contains("cannot start 'no-such-program'"), "{why:#}");
}

#[test]
fn variables_and_the_hosts_time_arrive() {
    let Some(lab) = lab() else { return };
    let mut run = shell("echo $WHO; date +%s");
    run.env.push(("WHO".into(), "a b".into()));
    let before = now_s();
    let told = stdout(&lab.run(&run).unwrap());
    let (who, time) = told.trim().split_once('\n').unwrap();
    assert_eq!(who, "a b");
    let time: u64 = time.parse().unwrap();
    assert!((before..=now_s() + 1).contains(&time), "{time} is not between {before} and now");
}

fn now_s() -> u64 {
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    epoch.elapsed().unwrap().as_secs()
}

#[test]
fn restored_guests_do_not_share_their_randomness() {
    let Some(lab) = lab() else { return };
    let draw = || lab.run(&shell("cat /proc/sys/kernel/random/uuid")).unwrap().stdout;
    assert_ne!(draw(), draw());
}

/// The guest's own `sort` is busybox's; the host's comes with its libraries and takes its place.
#[test]
fn a_dynamic_program_brings_its_libraries() {
    let Some(lab) = lab() else { return };
    let mut run = program(&["sort", "--version"]);
    run.files.push(GuestFile::new("/usr/bin/sort"));
    let finished = lab.run(&run).unwrap();
    assert!(stdout(&finished).contains("GNU coreutils"), "{finished:?}");
}

#[test]
fn numactl_is_there() {
    let Some(lab) = lab() else { return };
    let finished = lab.run(&program(&["numactl", "--hardware"])).unwrap();
    assert!(stdout(&finished).starts_with("available: 2 nodes (0-1)\n"), "{finished:?}");
}

#[test]
fn files_go_where_they_are_told() {
    let Some(lab) = lab() else { return };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut run =
        shell("cat Cargo.toml | head -1; head -1 /opt/deep/toml; ls src | grep -c main.rs");
    run.files.push(GuestFile::new(here.join("Cargo.toml")));
    run.files
        .push(format!("{}:/opt/deep/toml", here.join("Cargo.toml").display()).parse().unwrap());
    run.files.push(GuestFile::new(here.join("src")));
    assert_eq!(stdout(&lab.run(&run).unwrap()), "[package]\n[package]\n1\n");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let Some(lab) = lab() else { return };
    let mut run = shell("true");
    run.files.push(GuestFile::new("/no/such/file"));
    let why = format!("{:#}", lab.run(&run).unwrap_err());
    assert!(why.contains("/no/such/file"), "{why}");
}

/// Each writes to its memory and its files; neither sees the writes of the other.
#[test]
fn two_runs_at_once_do_not_meet() {
    let Some(lab) = lab() else { return };
    let line = |word: &str| {
        format!("dd if=/dev/zero of=/tmp/{word} bs=1M count=64 2>/dev/null; sleep 1; ls /tmp")
    };
    std::thread::scope(|scope| {
        let runs = ["one", "two"].map(|word| {
            let (lab, run) = (&lab, shell(&line(word)));
            (word, scope.spawn(move || lab.run(&run).unwrap()))
        });
        for (word, run) in runs {
            assert_eq!(stdout(&run.join().unwrap()), format!("{word}\n"));
        }
    });
}

#[test]
fn a_kernel_that_cannot_boot_shows_its_console() {
    let Some(lab) = lab() else { return };
    let run = GuestRun { cold: true, append: "rdinit=/no-such-init".into(), ..shell("true") };
    let why = format!("{:#}", lab.run(&run).unwrap_err());
    assert!(why.contains("the guest did not boot; its kernel crashed"), "{why}");
    assert!(why.contains("panic"), "{why}");
}
