//! Memory of programs that are wider than a node, placed by what the kernel's clock interrupts.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::balancer::{StateDir, disable_numa_balancing};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::numa_maps::pages_of;

pub const CASES: [(&str, CaseFn); 2] =
    [("balance_parts", || parts("share")), ("balance_parts_read", || parts("read-share"))];

/// Rounds in which nothing may move any more.
const QUIET: usize = 4;
/// The base pages of one thread's part, of 128 MiB for four threads.
const PART: u64 = 8192;

/// A process whose threads go through parts of their own, for ever.
struct Stream(Child);

impl Stream {
    fn start(words: &str) -> Self {
        let mut command = Command::new("nodeward-stream");
        command.args(words.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().expect("nodeward-stream starts"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn pages_on(&self, node: u32) -> u64 {
        pages_of(self.pid()).get(&node).copied().unwrap_or(0)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("our child can be killed");
    }
}

/// Goal: of a process whose four threads are bound to CPUs of two nodes by turns, and whose memory
/// all lies on node 0, the two parts that threads on node 1 use move there, by registers alone: at
/// least 95 % of them, whether they are written or only read. At most a twentieth more than these
/// parts moves, and then nothing. Moves have a day to pay, as a page costs milliseconds here on a
/// slow host.
fn parts(part: &str) -> CaseOutcome {
    disable_numa_balancing()?;
    let place = StateDir::new(part);
    let words = "--size 128MiB --threads 4 --passes 1000000 --nodes 0 --stay 0,1";
    let stream = Stream::start(&format!("{words} --part {part}"));
    let settings = place.path().join("settings.toml");
    fs::write(&settings, "[balance]\nhorizon = '24h'\nhorizon-max = '24h'\n").expect("a file");
    let settings = settings.display();
    let words = format!("--pid {} --access registers --config {settings}", stream.pid());
    let mut balance = place.start(&words);
    let is_placed = || stream.pages_on(1) * 100 >= 2 * PART * 95;
    balance.wait_for_round("the parts of node 1 are there", |_| is_placed());
    for _ in 0..QUIET {
        balance.reload_and_next_round();
    }
    let moved = balance.moved_pages;
    println!("{moved} pages moved; {} on node 1 of {}", stream.pages_on(1), 2 * PART);
    assert!(moved * 20 <= 2 * PART * 21, "{moved} pages moved for {}", 2 * PART);
    balance.stop().assert_success();
    Ok(())
}
