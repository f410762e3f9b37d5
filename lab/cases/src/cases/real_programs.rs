//! Real programs with little memory in many addresses: one that was built with AddressSanitizer,
//! and one whose garbage collector is ZGC. The test brings them into the guest.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{pin_this_thread, read, set_affinity};
use crate::nodeward::{nodeward, run_command};
use crate::numa_maps::pages_of;

pub const CASES: [(&str, CaseFn); 2] = [("sanitizer", sanitizer), ("zgc", zgc)];

/// Where the test puts the programs.
const SANITIZED: &str = "/srv/blocks";
const JAVA: &str = "/srv/java/bin/java";
const CLASSES: &str = "/srv/classes";
/// Moves by each program, in turns.
const ROUNDS: u32 = 3;
/// Maximum ratio of the time of a move to that of migratepages: much more than it is, much less
/// than that of a look at each address.
const RATIO_MAX: f64 = 10.0;

/// Goal: the memory of a program under AddressSanitizer, in 20 TiB of addresses, moves while it
/// works, in about the time of migratepages; nothing of it is lost.
fn sanitizer() -> CaseOutcome {
    let mut command = Command::new(SANITIZED);
    // What is freed is kept by the sanitizer, up to 256 MiB by default.
    command.env("ASAN_OPTIONS", "quarantine_size_mb=1");
    moves(&mut command, 5 << 40)
}

/// Goal: likewise the heap of a Java program with ZGC, which reserves 16 times its size, thrice.
fn zgc() -> CaseOutcome {
    let mut command = Command::new(JAVA);
    command.args(["-XX:+UseZGC", "-Xms128m", "-Xmx512m", "-cp", CLASSES, "Blocks"]);
    moves(&mut command, 16 << 30)
}

/// Moves a program, which has at least `addresses_min` bytes of addresses, to and fro.
fn moves(command: &mut Command, addresses_min: u64) -> CaseOutcome {
    let program = RealProgram::start(command);
    assert!(program.address_bytes() >= addresses_min, "{}", program.address_bytes());
    program.is_shown();
    let (mut ours, mut theirs) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        ours += program.bring(1, Command::new("nodeward").args(["move", "--quiet"]));
        theirs += program.bring(0, &mut Command::new("migratepages"));
    }
    // A pace needs addresses, which before Linux 6.7 nobody lists.
    let paced = ["move", "--quiet", "--rate", "1GiB/s", "--stall", "1s"];
    let paced = program.bring(1, Command::new("nodeward").args(paced));
    println!("paced: {paced:.2?}");
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("move {ours:.2?}, migratepages {theirs:.2?}, {ROUNDS} each: {ratio:.2} times as long");
    assert!(ratio < RATIO_MAX, "{ratio}");
    program.end();
    Ok(())
}

/// A program that works until its input ends.
struct RealProgram {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl RealProgram {
    /// Starts it on node 0, and waits until it has its memory.
    fn start(command: &mut Command) -> Self {
        pin_this_thread(&[0]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program starts");
        pin_this_thread(&[0, 1]);
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut program = Self { child, input, output };
        assert_eq!(program.line(), "ready");
        program
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output can be read");
        line.trim().to_owned()
    }

    /// The size of its address space, the first field of statm.
    fn address_bytes(&self) -> u64 {
        let text = read(&format!("/proc/{}/statm", self.pid()));
        text.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
    }

    /// A look ends, sampled and exact, and sees pages.
    fn is_shown(&self) {
        for how in ["", "--exact"] {
            let began = Instant::now();
            let shown = nodeward(&format!("show --json {how} {}", self.pid()));
            let told: Value = shown.json_after_exit(0);
            let pages = told["processes"][0]["total"]["pages"].as_u64();
            println!("show {how}: {pages:?} pages, {:.2?}", began.elapsed());
            assert!(pages.is_some_and(|pages| pages > 1000), "{told}");
        }
    }

    /// Lets it run on a node, and brings its memory there from the other one by a command, whose
    /// time is returned. It works meanwhile, and a collector moves objects: one page in ten may
    /// stay.
    fn bring(&self, to: u32, command: &mut Command) -> Duration {
        let (pid, from) = (self.pid(), 1 - to);
        set_affinity(pid, &[to as usize]);
        command.args([pid, from, to].map(|number| number.to_string()));
        let began = Instant::now();
        let output = run_command(command);
        let took = began.elapsed();
        let left = || pages_of(pid).get(&from).copied().unwrap_or(0);
        let all: u64 = pages_of(pid).values().sum();
        println!("to {to}: {} of {all} pages left, {took:.2?}: {}", left(), output.stdout);
        assert!(left() <= all / 10, "{output:?}");
        took
    }

    /// Ends it, and checks that its memory held what was written.
    fn end(mut self) {
        self.input = None;
        let line = self.line();
        assert!(line.starts_with("checked ") && line.ends_with(" wrong 0"), "{line}");
        assert!(self.child.wait().is_ok_and(|status| status.success()));
    }
}

impl Drop for RealProgram {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
    }
}
