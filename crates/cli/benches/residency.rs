//! Cost of `nodeward show PID`: relative to `numastat -p PID`, and as the process grows.
//!
//! `cargo bench -p nodeward-cli --bench residency -- speed` runs both commands in alternating pairs
//! on a process of 8 GiB in base pages; `-- growth` compares 1 GiB with 16 GiB. Whole commands are
//! timed, from spawn to exit. The result is the median (of the ratios of pairs, so that other load
//! affects both). The command is measured with its default of 256 samples of a kind that is on one
//! node, and with the 2401 samples that the worst layout on two nodes needs. The last line is JSON
//! for SPEC. Without `--bench` (as `cargo test` runs it) everything is small and only checked to
//! work.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const MIB: u64 = 1 << 20;
const WORST_SAMPLES: &str = "2401";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let full = given.contains(&"--bench");
    match &given[..] {
        ["hold", mebibytes] => hold_memory(mebibytes.parse().expect("a number of MiB")),
        given if given.contains(&"growth") => growth(full),
        _ => speed(full),
    }
}

fn speed(full: bool) {
    let (mebibytes, pairs) = if full { (8192, 41) } else { (64, 2) };
    let held = MemoryHolder::start(mebibytes);
    if Command::new("numastat").arg("-V").output().is_err() {
        println!("{{\"skipped\": \"numastat is not installed (package numactl)\"}}");
        return;
    }
    let mut numastat = Vec::new();
    let mut show = Vec::new();
    let mut usual = Vec::new();
    for _ in 0..pairs {
        numastat.push(time("numastat", &["-p", &held.pid()]));
        show.push(time_show(&held, &["--samples", WORST_SAMPLES]));
        usual.push(time_show(&held, &[]));
    }
    let ratio = |ours: &[u128]| {
        let tenths = median(numastat.iter().zip(ours).map(|(a, b)| a * 10 / b).collect());
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    let (measured, worst) = (ratio(&usual), ratio(&show));
    let (numastat, show, usual) = (median(numastat), median(show), median(usual));
    println!(
        "{mebibytes} MiB: numastat -p {numastat} us, show {show} us with {WORST_SAMPLES} samples a \
         kind, {usual} us with as many as needed here"
    );
    println!("{{\"measured\": {measured}, \"worst_layout\": {worst}, \"mebibytes\": {mebibytes}}}");
}

fn growth(full: bool) {
    let (small, large, pairs) = if full { (1024, 16 * 1024, 25) } else { (16, 64, 2) };
    let processes = [MemoryHolder::start(small), MemoryHolder::start(large)];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..pairs {
        for (held, times) in processes.iter().zip(&mut times) {
            times.push(time_show(held, &["--samples", WORST_SAMPLES]));
        }
    }
    let [first, second] = times.map(median);
    println!("{small} MiB: {first} us, {large} MiB: {second} us");
    println!(
        "{{\"measured\": {:.2}, \"from_mebibytes\": {small}, \"to_mebibytes\": {large}}}",
        second as f64 / first as f64
    );
}

fn time_show(held: &MemoryHolder, options: &[&str]) -> u128 {
    let pid = held.pid();
    let mut arguments = vec!["show", &pid, "--json"];
    arguments.extend(options);
    time(env!("CARGO_BIN_EXE_nodeward"), &arguments)
}

/// Returns the microseconds from spawn to exit of a command.
fn time(program: &str, arguments: &[&str]) -> u128 {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("the command to start");
    let elapsed = start.elapsed().as_micros();
    assert!(status.success(), "{program} {arguments:?}: {status}");
    elapsed
}

fn median(mut times: Vec<u128>) -> u128 {
    times.sort_unstable();
    times[times.len() / 2]
}

/// A process that holds touched memory until it is dropped.
struct MemoryHolder(Child);

impl MemoryHolder {
    fn start(mebibytes: u64) -> Self {
        let us = std::env::current_exe().expect("our own path");
        let mut child = Command::new(us)
            .args(["hold", &mebibytes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process to hold memory");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its output");
        BufReader::new(stdout).read_line(&mut line).expect("a word that it is ready");
        assert_eq!(line, "ready\n", "the process could not touch {mebibytes} MiB");
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for MemoryHolder {
    fn drop(&mut self) {
        drop(self.0.stdin.take()); // the end of its input ends it
        self.0.wait().ok();
    }
}

/// Touches every base page of `mebibytes` MiB, then waits for the end of the input.
fn hold_memory(mebibytes: u64) {
    rustix::thread::disable_transparent_huge_pages(true).ok();
    let bytes = usize::try_from(mebibytes * MIB).expect("a size that fits");
    let mut memory = vec![0_u8; bytes];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    println!("ready");
    std::io::stdout().flush().ok();
    std::io::stdin().read_to_end(&mut Vec::new()).ok();
    assert_eq!(std::hint::black_box(&memory)[0], 1);
}
