//! Moves memory of a process home, one chunk at a time, within the budget of the round.
//!
//! A chunk has no more pages than the budget has left, so the budget holds whatever the pages are.
//! The next round continues where this one ended.

use std::sync::Arc;

use nodeward_machine::{Liveness, Machine, Process, Result};
use nodeward_model::{Account, NodeId, NodePairs, Nodemask, PageSet, Range, SkipReason};
use nodeward_mover::{
    Jobs, MoveControl, MoveReport, MoveRequest, MoveSums, Selection, SharedLedger, migrate,
};
use nodeward_policy::folio_plan::MoveOrder;
use nodeward_policy::placement::Rules;

use super::nodes::Nodes;
use super::report::Short;

/// Address space for which populated parts are listed at a time, in bytes.
const WINDOW_BYTES: u64 = 1 << 30;
/// Minimum and maximum chunk, in bytes: at least what one page table maps, and at most what each
/// worker moves in tens of milliseconds, because the mover checks between two chunks whether to
/// stop.
const CHUNK_BYTES: [u64; 2] = [2 << 20, 64 << 20];
/// Maximum number of ranges in a chunk.
const CHUNK_RANGES: usize = 1024;
/// Bounds of the search for pages: a multiple of the bytes that may be moved, and a number of bytes
/// that are always searched.
const SEARCH_FACTOR: u64 = 16;
const SEARCH_BYTES_MIN: u64 = 1 << 30;

/// Moves a part of a pending move.
pub struct MemoryMover<'a> {
    pub machine: &'a dyn Machine,
    pub nodes: &'a Nodes,
    /// The rules, which say when memory is short.
    pub rules: &'a Rules,
    /// The request to stop, and the progress.
    pub live: &'a MoveControl,
    pub journal: Option<&'a SharedLedger>,
    /// Time by the machine's clock at which the rest is left to the next round.
    pub until_ns: u64,
    pub stall_ns: Option<u64>,
    pub workers: u32,
    pub portion: Portion<'a>,
}

/// The memory to move, and its destination.
pub struct Portion<'a> {
    pub process: &'a Arc<dyn Process>,
    /// The memory that may be moved, in ascending order.
    pub ranges: &'a [Range],
    /// The pages of the ranges to move; all of them if `None`.
    pub pages: Option<PageSet>,
    pub from: &'a Nodemask,
    pub to: NodeId,
    /// Base pages that should move, by the samples.
    pub expected_pages: u64,
    /// Maximum number of base pages to move now.
    pub pages_max: u64,
    /// True if all memory that is away is to move, even if it is more than expected. The move then
    /// continues as long as there is more.
    pub is_all: bool,
    /// True if pages that other processes map are to move, too.
    pub move_shared: bool,
}

/// The result of a move.
#[derive(Debug, Default)]
pub struct Moved {
    pub account: Account,
    /// The same with nodes and times.
    pub totals: MoveSums,
    /// The reason for which fewer pages moved than were asked for.
    pub short: Option<Short>,
    /// The error of the machine, if it refused.
    pub error: Option<String>,
    /// All pages below this address have been visited.
    pub cursor: u64,
}

impl MemoryMover<'_> {
    /// Moves pages at and above an address.
    pub fn run(&self, cursor: u64) -> Moved {
        let moved = Moved { cursor, ..Moved::default() };
        let mut run = Run { mover: self, moved, searched_bytes: 0 };
        let end = run.go_through();
        let is_done = run.is_done();
        let mut moved = run.moved;
        moved.short = match end {
            Ok(Short::Budget) if is_done && !self.portion.is_all => None,
            Ok(Short::NotThere | Short::Refused) if is_done => None,
            Ok(short) => Some(short),
            Err(error) if error.is_gone() => Some(Short::Gone),
            Err(error) => {
                moved.error = Some(error.to_string());
                Some(Short::Failed)
            }
        };
        moved
    }
}

/// A move in progress.
struct Run<'a> {
    mover: &'a MemoryMover<'a>,
    moved: Moved,
    searched_bytes: u64,
}

impl Run<'_> {
    /// Visits the ranges to their end; returns why not everything was moved.
    fn go_through(&mut self) -> Result<Short> {
        let ranges = self.mover.portion.ranges;
        let behind = Range::new(self.moved.cursor, u64::MAX);
        let ranges = ranges.iter().filter_map(|range| range.intersection(behind));
        let mut chunk = Chunk::default();
        for window in ranges.flat_map(|range| range.aligned_pieces(WINDOW_BYTES)) {
            for part in self.populated(window)? {
                for piece in part.aligned_pieces(CHUNK_BYTES[0]) {
                    if chunk.is_full(piece, self.chunk_bytes())
                        && let Some(short) = self.move_chunk(&mut chunk)?
                    {
                        return Ok(short);
                    }
                    chunk.add(piece);
                }
            }
        }
        let is_last = !chunk.ranges.is_empty();
        let short = self.move_chunk(&mut chunk)?;
        // The last chunk has been visited, whatever budget is left.
        let is_over = is_last && chunk.ranges.is_empty() && short == Some(Short::Budget);
        Ok(short.filter(|_| !is_over).unwrap_or_else(|| self.left_over()))
    }

    /// Returns the parts of a window that may hold pages. To list them takes as long as to read a
    /// window of one page table.
    fn populated(&self, window: Range) -> Result<Vec<Range>> {
        match window.bytes() <= CHUNK_BYTES[0] {
            true => Ok(vec![window]),
            false => self.mover.portion.process.populated(window),
        }
    }

    /// Moves the pages of a chunk; returns why it is the last one, if so.
    fn move_chunk(&mut self, chunk: &mut Chunk) -> Result<Option<Short>> {
        if chunk.ranges.is_empty() {
            return Ok(None);
        }
        if self.mover.live.is_stopped() {
            return Ok(Some(Short::Interrupted));
        }
        // One chunk is moved in any case: to find its pages may have taken all of the time.
        if self.searched_bytes > 0 && self.mover.machine.now_ns() >= self.mover.until_ns {
            return Ok(Some(Short::Budget));
        }
        if self.is_pressed()? {
            return Ok(Some(Short::Pressure));
        }
        let Chunk { ranges, bytes } = std::mem::take(chunk);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let report = self.migrate(ranges)?;
        self.searched_bytes += bytes;
        self.moved.cursor = end;
        self.moved.account.add(&report.account());
        self.moved.totals.add(&report);
        if let Some(error) = report.error {
            return Err(error);
        }
        let is_gone = report.processes.iter().any(|process| process.life != Liveness::Running);
        let is_full = report.account().skipped_for(SkipReason::NoMemory) > 0;
        let is_more = report.account().moved > 0;
        Ok(match (is_gone, is_full) {
            (true, _) => Some(Short::Gone),
            (false, true) => Some(Short::Pressure),
            (false, false) if self.is_done() && !is_more => Some(self.left_over()),
            (false, false) if self.left_pages() == 0 || self.has_searched() => Some(Short::Budget),
            (false, false) => None,
        })
    }

    fn migrate(&self, ranges: Vec<Range>) -> Result<MoveReport> {
        let MemoryMover { machine, portion, workers, .. } = self.mover;
        let pairs = NodePairs::all_to(portion.from, portion.to);
        // A move accounts for each page that its order names.
        let pages = portion.pages.as_ref().map(|pages| pages.within(&ranges));
        let move_shared = portion.move_shared;
        let request = MoveRequest {
            orders: vec![vec![MoveOrder { pairs, pages }].into()],
            selection: Selection { ranges, move_shared, ..Selection::default() },
            jobs: Jobs::Fixed(*workers),
            cpus: Vec::new(),
            rate_bytes_per_s: None,
            stall_ns: self.mover.stall_ns,
            split_huge: false,
        };
        let process = std::slice::from_ref(portion.process);
        // A control of its own: a move that fails stops the workers of its control.
        let live = MoveControl::default();
        migrate(*machine, process, &request, &live, self.mover.journal)
    }

    fn left_pages(&self) -> u64 {
        self.mover.portion.pages_max.saturating_sub(self.moved.account.moved)
    }

    /// Returns the maximum size of the next chunk within the budget.
    fn chunk_bytes(&self) -> u64 {
        let left = self.left_pages().saturating_mul(self.mover.machine.page_bytes());
        left.clamp(CHUNK_BYTES[0], CHUNK_BYTES[1] * u64::from(self.mover.workers))
    }

    fn is_done(&self) -> bool {
        self.moved.account.moved >= self.mover.portion.expected_pages
    }

    /// Returns whether the destination is short of memory.
    fn is_pressed(&self) -> Result<bool> {
        let MemoryMover { machine, nodes, rules, portion, .. } = self.mover;
        let room = machine.headroom()?.get(&portion.to).copied();
        Ok(room.is_some_and(|room| nodes.is_short(portion.to, room.free_or_cold_pages(), rules)))
    }

    fn has_searched(&self) -> bool {
        let page_bytes = self.mover.machine.page_bytes();
        let wanted = self.mover.portion.expected_pages.saturating_mul(page_bytes);
        self.searched_bytes >= wanted.saturating_mul(SEARCH_FACTOR).max(SEARCH_BYTES_MIN)
    }

    /// Returns why pages are missing although everything was visited.
    fn left_over(&self) -> Short {
        if self.moved.account.skipped_total() > 0 { Short::Refused } else { Short::NotThere }
    }
}

/// Ranges that are moved together.
#[derive(Default)]
struct Chunk {
    ranges: Vec<Range>,
    bytes: u64,
}

impl Chunk {
    fn is_full(&self, piece: Range, bytes_max: u64) -> bool {
        self.bytes + piece.bytes() > bytes_max || self.ranges.len() >= CHUNK_RANGES
    }

    fn add(&mut self, piece: Range) {
        self.bytes += piece.bytes();
        match self.ranges.last_mut() {
            Some(last) if last.end == piece.start => last.end = piece.end,
            _ => self.ranges.push(piece),
        }
    }
}
