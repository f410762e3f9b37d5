//! A buffer pool whose frames are moved from node to node while threads read and write them.
//!
//! Every word of a frame follows from the frame's number and version. The versions are kept in
//! memory that does not move, so a lost write and a torn read are both found. Ends with an error if
//! there was one.

use std::error::Error;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use nodeward::{
    Backend, Budget, Migration, MigrationReport, NodeId, Pager, PagerOptions, Region, RegionOptions,
};

const FRAMES: usize = 2048;
const FRAME_WORDS: usize = 1024; // 8 KiB, as a page of a database
const POOL_BYTES: usize = FRAMES * FRAME_WORDS * 8;
const THREADS: u64 = 2;
const ROUNDS: usize = 4;

/// Runs the pool; an error tells how many words were lost.
pub fn main() -> Result<(), Box<dyn Error>> {
    let pager = Pager::open(&PagerOptions::default())?;
    println!("backend: {}, at most {} lanes", pager.backend().name(), pager.lanes());
    let region = pager.reserve(POOL_BYTES, &RegionOptions::default())?;
    let pool = FramePool::new(&region);
    let stop = AtomicBool::new(false);

    let (toured, works) = thread::scope(|scope| {
        let (pool, stop) = (&pool, &stop);
        let workers: Vec<_> =
            (1..=THREADS).map(|seed| scope.spawn(move || use_frames(pool, seed, stop))).collect();
        let toured = visit_nodes(&pager, &region);
        stop.store(true, Relaxed);
        let works = workers.into_iter().map(|worker| worker.join().expect("no thread panics"));
        (toured, works.collect::<Vec<_>>())
    });
    toured?;

    for ThreadResult { writes, reads, wrong_words } in &works {
        println!("{writes} writes, {reads} reads, {wrong_words} wrong words");
    }
    for (node, pages) in region.residency(0..region.bytes())? {
        println!("node {node} has {pages} pages");
    }
    let late: usize = (0..FRAMES).map(|frame| pool.wrong_words(frame)).sum();
    match late + works.iter().map(|work| work.wrong_words).sum::<usize>() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} words are not what was written last").into()),
    }
}

/// Frames in managed memory, and in `versions` how often each was written.
struct FramePool<'a> {
    words: &'a [AtomicU64],
    versions: Vec<RwLock<u64>>,
}

impl<'a> FramePool<'a> {
    fn new(region: &'a Region) -> Self {
        let pool =
            Self { words: region.words(), versions: (0..FRAMES).map(|_| RwLock::new(0)).collect() };
        (0..FRAMES).for_each(|frame| pool.write(frame));
        pool
    }

    fn frame(&self, frame: usize) -> &[AtomicU64] {
        &self.words[frame * FRAME_WORDS..][..FRAME_WORDS]
    }

    fn write(&self, frame: usize) {
        let mut version = self.versions[frame].write().expect("no thread panics");
        *version += 1;
        for (index, word) in self.frame(frame).iter().enumerate() {
            word.store(content(frame, *version, index), Relaxed);
        }
    }

    /// Returns the number of words of the frame that differ from those written last.
    fn wrong_words(&self, frame: usize) -> usize {
        let version = self.versions[frame].read().expect("no thread panics");
        let words = self.frame(frame).iter().enumerate();
        words.filter(|(index, word)| word.load(Relaxed) != content(frame, *version, *index)).count()
    }
}

fn content(frame: usize, version: u64, index: usize) -> u64 {
    (version << 32) ^ ((frame * FRAME_WORDS + index) as u64)
}

/// The counts of one thread.
#[derive(Default)]
struct ThreadResult {
    writes: u64,
    reads: u64,
    wrong_words: usize,
}

/// Writes every fourth time, reads otherwise, frames in an order without end (xorshift).
fn use_frames(pool: &FramePool<'_>, seed: u64, stop: &AtomicBool) -> ThreadResult {
    let mut done = ThreadResult::default();
    let mut random = seed;
    while !stop.load(Relaxed) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let frame = (random >> 8) as usize % FRAMES;
        if random.is_multiple_of(4) {
            pool.write(frame);
            done.writes += 1;
        } else {
            done.wrong_words += pool.wrong_words(frame);
            done.reads += 1;
        }
    }
    done
}

fn print(to: NodeId, report: &MigrationReport) {
    let account = &report.account;
    println!(
        "to node {to}: {} pages moved, {} already there, {} skipped, {} ms",
        account.moved,
        account.already_there,
        account.skipped_total(),
        report.took_ns / 1_000_000
    );
    for (reason, pages) in &account.skipped {
        println!("  {pages} {reason}: {}", reason.advice());
    }
}

/// Sends the pool to every node in turn.
fn visit_nodes(pager: &Pager, region: &Region) -> nodeward::Result<()> {
    let nodes = nodeward::nodes()?;
    let how = Migration {
        budget: Budget { bytes_per_s: Some(1 << 30), ..Budget::default() },
        // So that pages fly on a machine with one node, too; the kernel has no such wish.
        even_if_there: pager.backend() != Backend::Kernel,
        ..Migration::default()
    };
    for node in (0..ROUNDS).flat_map(|_| nodes.iter()) {
        print(node, &region.migrate(0..region.bytes(), node, &how)?);
    }
    Ok(())
}
