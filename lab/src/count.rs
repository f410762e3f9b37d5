//! Options of counting a run, and the machine parameters that the counter needs.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use nodeward_lab_counts::{
    CacheGeometry, CounterSnapshot, CountsLayout, CountsReader, FRAME_BYTES, FrameRange,
};
use nodeward_model::units::{parse_bytes, parse_duration_ns};

use crate::artifacts;
use crate::layout::CpuLayout;
use crate::qemu::{self, CPU_THREADS_MAX, CounterPlugin};
use crate::scenario::LabMachine;

/// Directory of count files without a given name.
const SHARED_MEMORY: &str = "/dev/shm";
/// Bytes per cache line.
const LINE_BYTES: u64 = 64;
/// With this much memory or more, the emulator leaves a hole for devices below 4 GiB.
const HOLE_MEMORY_MIN: u64 = 0xe000_0000;
/// Start of that hole; memory continues at 4 GiB.
const HOLE_START: u64 = 0xc000_0000;
const HOLE_END: u64 = 1 << 32;
/// A device with more memory finds no room in that hole; then single frames are not counted.
const FILE_BYTES_MAX: u64 = 512 << 20;
/// A node's distance to itself.
const LOCAL_DISTANCE: u64 = 10;
/// From this version on the emulator confuses CPUs when they take turns.
const ROUND_ROBIN_BROKEN_FROM: u32 = 9;

/// The old name of the key `miss`.
pub const OLD_MISS: &str = "price";

/// Options of counting a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountOptions {
    /// Size of each node's last-level cache in bytes.
    pub llc_bytes: u64,
    /// Its associativity.
    pub llc_ways: u64,
    /// Local latency of a miss on the modelled machine, in nanoseconds. A CPU is delayed by the
    /// extra latency of remote misses according to the distances; with 0 it never is.
    pub miss_delay_ns: u64,
    /// File for the counts, readable during the run and after it; without one they are in memory
    /// that is freed after the run.
    pub file: Option<PathBuf>,
}

impl Default for CountOptions {
    /// 1 MiB in 8 ways, and no delays.
    fn default() -> Self {
        Self { llc_bytes: 1 << 20, llc_ways: 8, miss_delay_ns: 0, file: None }
    }
}

impl FromStr for CountOptions {
    type Err = String;

    /// Parses `llc=2MiB,ways=16,miss=100ns`, or any subset of these.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut count = Self::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "llc" => count.llc_bytes = parse_bytes(value).map_err(|why| why.to_string())?,
                "ways" => count.llc_ways = value.parse().map_err(|_| wrong(word))?,
                "miss" | OLD_MISS => {
                    count.miss_delay_ns =
                        parse_duration_ns(value).map_err(|why| why.to_string())?;
                }
                _ => return Err(wrong(word)),
            }
        }
        let sets = count.llc_bytes.checked_div(count.llc_ways * LINE_BYTES);
        match sets.filter(|&sets| sets.is_power_of_two()) {
            Some(sets) if sets * count.llc_ways * LINE_BYTES == count.llc_bytes => Ok(count),
            _ => Err("size / ways / 64 bytes must be a power of two, as in llc=1MiB,ways=8".into()),
        }
    }
}

fn wrong(word: &str) -> String {
    format!("'{word}' is none of llc=SIZE, ways=NUMBER, miss=TIME")
}

/// A prepared file for the counter, and its lifetime.
#[derive(Debug)]
pub struct CounterFile {
    /// The emulator's options.
    pub plugin: CounterPlugin,
    _temporary: Option<tempfile::TempPath>,
}

impl CounterFile {
    /// Creates the file for a machine, and finds the counter.
    pub fn new(count: &CountOptions, scenario: &LabMachine, hypervisor: &str) -> Result<Self> {
        check_counts(scenario, count, hypervisor)?;
        let plugin = artifacts::counter_plugin()?;
        let shape = counts_layout(count, scenario)?;
        let (file, temporary) = match &count.file {
            Some(path) => (path.clone(), None),
            None => {
                let path = tempfile::Builder::new().tempfile_in(SHARED_MEMORY)?.into_temp_path();
                (path.to_path_buf(), Some(path))
            }
        };
        write(&file, &shape).with_context(|| format!("cannot make {}", file.display()))?;
        let counted =
            CounterPlugin { plugin, file: file.canonicalize()?, bytes: shape.file_bytes() };
        Ok(Self { plugin: counted, _temporary: temporary })
    }

    /// Returns the counts.
    pub fn read(&self) -> Result<CounterSnapshot> {
        let reader = CountsReader::open(&self.plugin.file)?;
        ensure!(reader.has_writer()?, "the emulator has not loaded the counter");
        Ok(reader.snapshot()?)
    }
}

fn write(path: &Path, shape: &CountsLayout) -> Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&shape.encode_header())?;
    Ok(file.set_len(shape.file_bytes())?)
}

/// Checks that runs can be counted on this host; the error says why not. Asks the hypervisor for
/// its options.
pub fn check_plugins() -> Result<()> {
    let help = Command::new(qemu::PROGRAM).arg("-help").output();
    let help = help.with_context(|| format!("cannot run {}", qemu::PROGRAM))?;
    let knows = String::from_utf8_lossy(&help.stdout).lines().any(|l| l.starts_with("-plugin "));
    ensure!(knows, "this {} was built without plugins, so it cannot count", qemu::PROGRAM);
    Ok(())
}

fn check_counts(scenario: &LabMachine, count: &CountOptions, hypervisor: &str) -> Result<()> {
    check_plugins()?;
    let turns = scenario.cpu_count() > CPU_THREADS_MAX;
    ensure!(
        !turns || count.miss_delay_ns == 0,
        "above {CPU_THREADS_MAX} CPUs take turns, and a miss would hold up all: leave miss= out"
    );
    ensure!(
        !turns || version(hypervisor).is_some_and(|major| major < ROUND_ROBIN_BROKEN_FROM),
        "{hypervisor} cannot count on more than {CPU_THREADS_MAX} CPUs"
    );
    Ok(())
}

/// Returns the major version in `QEMU emulator version 7.2.22 (...)`.
fn version(hypervisor: &str) -> Option<u32> {
    let (_, number) = hypervisor.split_once("version ")?;
    number.split('.').next()?.parse().ok()
}

fn counts_layout(count: &CountOptions, scenario: &LabMachine) -> Result<CountsLayout> {
    let place = |slot: &crate::layout::CpuSlot| slot.filled.then_some(slot.node);
    let mut shape = CountsLayout {
        cpu_slots: CpuLayout::of(scenario)?.slots.iter().map(place).collect(),
        memory: memory(scenario),
        llc: CacheGeometry { bytes: count.llc_bytes, ways: count.llc_ways },
        miss_delay_ns: Vec::new(),
        per_frame: true,
    };
    shape.miss_delay_ns = miss_delays(count.miss_delay_ns, scenario, shape.nodes());
    shape.per_frame = shape.file_bytes() <= FILE_BYTES_MAX;
    Ok(shape)
}

/// Returns the physical memory layout of the emulator's `pc` machine: nodes by ascending ids, with
/// a hole below 4 GiB.
fn memory(scenario: &LabMachine) -> Vec<FrameRange> {
    let total = scenario.memory_bytes();
    let low_end = if total >= HOLE_MEMORY_MIN { HOLE_START } else { total };
    let mut memory = Vec::new();
    let mut start = 0;
    for node in &scenario.nodes {
        let end = start + node.memory_bytes;
        let low = (start.min(low_end), end.min(low_end));
        let shift = HOLE_END - low_end;
        let high = (start.max(low_end) + shift, end.max(low_end) + shift);
        for (from, to) in [low, high].into_iter().filter(|(from, to)| from < to) {
            let (first, count) = (from / FRAME_BYTES, (to - from) / FRAME_BYTES);
            memory.push(FrameRange { first_frame: first, frame_count: count, node: node.id.0 });
        }
        start = end;
    }
    memory
}

/// Returns the extra latency of a miss over a local one, by node ids.
fn miss_delays(home_ns: u64, scenario: &LabMachine, nodes: usize) -> Vec<Vec<u64>> {
    let mut delays = vec![vec![0; nodes]; nodes];
    for (from, distances) in scenario.nodes.iter().zip(&scenario.distances) {
        for (to, &distance) in scenario.nodes.iter().zip(distances) {
            let further = u64::from(distance).saturating_sub(LOCAL_DISTANCE);
            delays[from.id.0 as usize][to.id.0 as usize] = home_ns * further / LOCAL_DISTANCE;
        }
    }
    delays
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn scenario(gib: &[u64]) -> LabMachine {
        let node = |(id, gib): (usize, &u64)| {
            format!("[[node]]\nid = {id}\ncpus = 1\nmemory = \"{gib}GiB\"\n")
        };
        LabMachine::parse("test", &gib.iter().enumerate().map(node).collect::<String>()).unwrap()
    }

    /// Returns start and end in GiB, and the node.
    fn laid_out(gib: &[u64]) -> Vec<(u64, u64, u32)> {
        let each = GIB / FRAME_BYTES;
        let part = |part: FrameRange| {
            (part.first_frame / each, (part.first_frame + part.frame_count) / each, part.node)
        };
        memory(&scenario(gib)).into_iter().map(part).collect()
    }

    /// Goal: memory is where the machine has it; the part that does not fit below 3 GiB is above 4
    /// GiB.
    #[test]
    fn memory_is_laid_out_around_the_hole() {
        assert_eq!(laid_out(&[1, 2]), [(0, 1, 0), (1, 3, 1)]);
        assert_eq!(laid_out(&[2, 2]), [(0, 2, 0), (2, 3, 1), (4, 5, 1)]);
        assert_eq!(laid_out(&[1, 1, 1, 1]), [(0, 1, 0), (1, 2, 1), (2, 3, 2), (4, 5, 3)]);
        assert_eq!(laid_out(&[4, 1]), [(0, 3, 0), (4, 5, 0), (5, 6, 1)]);
    }

    /// Goal: a miss costs the extra latency of its distance, in its direction.
    #[test]
    fn delays_follow_the_distances() {
        let asymmetric = LabMachine::find("asymmetric").unwrap();
        // Distances of node 0: 10, 20, 30; from 2 to 0 and 1: 35 and 25.
        let delays = miss_delays(100, &asymmetric, 3);
        assert_eq!((&delays[0], delays[2][0], delays[2][1]), (&vec![0, 100, 200], 250, 150));
        let hole = LabMachine::find("four-nodes-hole").unwrap();
        let shape =
            counts_layout(&CountOptions { miss_delay_ns: 50, ..CountOptions::default() }, &hole)
                .unwrap();
        // Ids 0, 1, 3 and 4; between 1 and 3 it is 28: 50 x 18 / 10.
        assert_eq!(
            (shape.miss_delay_ns[1][3], shape.miss_delay_ns[1][2], shape.miss_delay_ns.len()),
            (90, 0, 5)
        );
        assert_eq!(shape.cpu_slots, [Some(0), Some(1), None, Some(3), Some(4)]);
        assert!(shape.per_frame);
    }

    /// Goal: options in words are parsed; invalid ones are refused.
    #[test]
    fn words_are_understood() {
        let asked: CountOptions = "llc=3MiB,ways=12,miss=150ns".parse().unwrap();
        let expected =
            CountOptions { llc_bytes: 3 << 20, llc_ways: 12, miss_delay_ns: 150, file: None };
        assert_eq!(asked, expected);
        assert_eq!("llc=3MiB,ways=12,price=150ns".parse(), Ok(expected), "the old name");
        assert_eq!("".parse(), Ok(CountOptions::default()));
        for wrong in ["llc", "llc=3MiB", "ways=0", "ways=x", "miss=1", "size=1MiB", "llc=100"] {
            assert!(wrong.parse::<CountOptions>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)"), Some(7));
        assert_eq!(version("something else"), None);
    }
}
