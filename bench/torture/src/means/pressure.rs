//! Memory gets short for the whole process: memory.high of its control group goes down and up.

use std::fs;
use std::time::{Duration, Instant};

use super::pageout::swap;
use super::{Made, Means, Site, Skipped, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand};
use crate::lot::Lot;

pub const WHAT: &str = "memory.high of our control group, so low that pages go to swap";

const ROOT: &str = "/sys/fs/cgroup";
/// Bytes by which the limit is at times below the present use.
const LESS: u64 = 1 << 20;
/// Memory is short for one part in this many of the time: other threads wait for swap then, and do
/// little else.
const SHORT: u32 = 8;
const NAP: Duration = Duration::from_millis(10);

struct Pressure {
    lots: Vec<Lot<'static>>,
    folder: String,
}

pub fn make(site: &mut Site<'_>) -> Made {
    site.needs_the_machine()?;
    swap()?;
    let folder = format!("{ROOT}/nodeward-torture-{}", std::process::id());
    enter(&folder).map_err(|error| Skipped(format!("{folder}: {error}")))?;
    one(Pressure { lots: site.ground.lots(Use::Plain), folder })
}

fn enter(folder: &str) -> std::io::Result<()> {
    fs::write(format!("{ROOT}/cgroup.subtree_control"), "+memory")?;
    fs::create_dir(folder)?;
    fs::write(format!("{folder}/cgroup.procs"), "0")
}

impl Means for Pressure {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let began = Instant::now();
        let used = fs::read_to_string(format!("{}/memory.current", self.folder));
        let used: u64 = used.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        hand.post.does("memory.high down", 0..0);
        self.high(&used.saturating_sub(LESS).to_string());
        std::thread::sleep(Duration::from_millis(hand.dice.below(20) as u64));
        hand.post.does("memory.high up", 0..0);
        self.high("max");
        rest(hand, began.elapsed() * (SHORT - 1));
        let lot = hand.one_of(&mut self.lots);
        hand.turn(lot)
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.lots
    }
}

fn rest(hand: &Hand, time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time && !hand.is_over() {
        std::thread::sleep(NAP);
        hand.post.goes_on();
    }
}

impl Pressure {
    /// An error is ignored: what the kernel cannot reclaim now it can another time.
    fn high(&self, text: &str) {
        fs::write(format!("{}/memory.high", self.folder), text).ok();
    }
}

impl Drop for Pressure {
    fn drop(&mut self) {
        self.high("max");
        fs::write(format!("{ROOT}/cgroup.procs"), "0").ok();
        fs::remove_dir(&self.folder).ok();
    }
}
