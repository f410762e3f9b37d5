//! Brings memory of a process home, a stretch at a time, within what may be moved now.
//!
//! A stretch has no more pages than the budget still has, so that it holds whatever lies in there;
//! the next round goes on where this one ended.

use std::sync::Arc;

use nodeward_machine::{Life, Machine, Process, Result};
use nodeward_model::{Account, NodeId, NodePairs, Nodemask, Range, SkipReason};
use nodeward_policy::placement::Rules;
use nodeward_policy::plan::Order;

use super::ground::{Ground, room_pages};
use super::report::Short;
use crate::journal::Journal;
use crate::{Jobs, Live, MoveReport, MoveRequest, Selection, migrate};

/// Populated parts are listed for so much address space at a time, in bytes.
const WINDOW_BYTES: u64 = 1 << 30;
/// A stretch is no shorter than a page table maps, and no longer than each worker moves in tens of
/// milliseconds, in bytes: between two of them it is looked whether to stop.
const STRETCH_BYTES: [u64; 2] = [2 << 20, 64 << 20];
/// Ranges in a stretch at most.
const STRETCH_RANGES: usize = 1024;
/// Looking for pages ends after so many times what may be moved, in bytes, or so many bytes.
const SEARCH_FACTOR: u64 = 16;
const SEARCH_BYTES_MIN: u64 = 1 << 30;

/// What is to be brought where.
pub struct Load<'a> {
    pub process: &'a Arc<dyn Process>,
    /// The memory that may be moved, in ascending order.
    pub ranges: &'a [Range],
    pub from: &'a Nodemask,
    pub to: NodeId,
    /// How many base pages are to move, as far as samples tell.
    pub expected_pages: u64,
    /// The most base pages to move now.
    pub pages_max: u64,
    /// Whether all that is away is meant, though it be more than expected: then it goes on for as
    /// long as there is more.
    pub is_all: bool,
    pub stall_ns: Option<u64>,
    /// What says when memory is short.
    pub rules: &'a Rules,
    /// How many move it side by side.
    pub workers: u32,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Hauled {
    pub account: Account,
    /// Why fewer pages moved than were asked for.
    pub short: Option<Short>,
    /// What the machine refused.
    pub error: Option<String>,
    /// Where the next one goes on.
    pub cursor: u64,
}

/// What a haul needs of its surroundings.
pub struct Road<'a> {
    pub machine: &'a dyn Machine,
    pub ground: &'a Ground,
    /// Asks us to stop.
    pub live: &'a Live,
    pub journal: Option<&'a Journal>,
    /// When to leave the rest to the next round, by the machine's clock.
    pub until_ns: u64,
}

impl Road<'_> {
    /// Moves pages of a process that lie behind an address.
    pub fn haul(&self, load: &Load<'_>, cursor: u64) -> Hauled {
        let hauled = Hauled { cursor, ..Hauled::default() };
        let mut trip = Trip { road: self, load, hauled, searched_bytes: 0 };
        let end = trip.go();
        let is_done = trip.is_done();
        let mut hauled = trip.hauled;
        hauled.short = match end {
            Ok(Short::Budget) if is_done && !load.is_all => None,
            Ok(Short::NotThere | Short::Refused) if is_done => None,
            Ok(short) => Some(short),
            Err(error) if error.is_gone() => Some(Short::Gone),
            Err(error) => {
                hauled.error = Some(error.to_string());
                Some(Short::Failed)
            }
        };
        hauled
    }
}

/// A haul that is under way.
struct Trip<'a> {
    road: &'a Road<'a>,
    load: &'a Load<'a>,
    hauled: Hauled,
    searched_bytes: u64,
}

impl Trip<'_> {
    /// Goes through the ranges to their end; tells why not everything moved.
    fn go(&mut self) -> Result<Short> {
        let behind = Range::new(self.hauled.cursor, u64::MAX);
        let ranges = self.load.ranges.iter().filter_map(|range| range.and(behind));
        let mut stretch = Stretch::default();
        for window in ranges.flat_map(|range| range.aligned_pieces(WINDOW_BYTES)) {
            for part in self.load.process.populated(window)? {
                for piece in part.aligned_pieces(STRETCH_BYTES[0]) {
                    if stretch.is_full(piece, self.stretch_bytes())
                        && let Some(short) = self.carry(&mut stretch)?
                    {
                        return Ok(short);
                    }
                    stretch.add(piece);
                }
            }
        }
        let is_last = !stretch.ranges.is_empty();
        let short = self.carry(&mut stretch)?;
        // What was the last stretch is gone through, whatever may still be moved.
        let is_over = is_last && stretch.ranges.is_empty() && short == Some(Short::Budget);
        Ok(short.filter(|_| !is_over).unwrap_or_else(|| self.left_over()))
    }

    fn left_pages(&self) -> u64 {
        self.load.pages_max.saturating_sub(self.hauled.account.moved)
    }

    /// How long the next stretch may be, so that no more moves than may.
    fn stretch_bytes(&self) -> u64 {
        let left = self.left_pages().saturating_mul(self.road.machine.page_bytes());
        let most = STRETCH_BYTES[1] * u64::from(self.load.workers);
        left.clamp(STRETCH_BYTES[0], most)
    }

    /// Moves what lies in a stretch; tells why that was the last one, if it was.
    fn carry(&mut self, stretch: &mut Stretch) -> Result<Option<Short>> {
        if stretch.ranges.is_empty() {
            return Ok(None);
        }
        if self.road.live.is_stopped() {
            return Ok(Some(Short::Interrupted));
        }
        if self.road.machine.now_ns() >= self.road.until_ns {
            return Ok(Some(Short::Budget));
        }
        if self.is_pressed()? {
            return Ok(Some(Short::Pressure));
        }
        let Stretch { ranges, bytes } = std::mem::take(stretch);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        let report = self.migrate(ranges)?;
        self.searched_bytes += bytes;
        self.hauled.cursor = end;
        self.hauled.account.add(&report.account());
        if let Some(error) = report.error {
            return Err(error);
        }
        let is_gone = report.processes.iter().any(|process| process.life != Life::Running);
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

    fn is_done(&self) -> bool {
        self.hauled.account.moved >= self.load.expected_pages
    }

    fn migrate(&self, ranges: Vec<Range>) -> Result<MoveReport> {
        let pairs = NodePairs::gathering(self.load.from, self.load.to);
        let request = MoveRequest {
            orders: vec![vec![Order { pairs, pages: None }].into()],
            selection: Selection { ranges, everyones: false, ..Selection::default() },
            jobs: Jobs::Fixed(self.load.workers),
            cpus: Vec::new(),
            rate_bytes_per_s: None,
            stall_ns: self.load.stall_ns,
        };
        let process = std::slice::from_ref(self.load.process);
        // Its own: a move that fails asks whoever moves with it to stop.
        let live = Live::default();
        migrate(self.road.machine, process, &request, &live, self.road.journal)
    }

    fn is_pressed(&self) -> Result<bool> {
        let room = self.road.machine.rooms()?.get(&self.load.to).copied();
        let Road { ground, .. } = self.road;
        Ok(room
            .is_some_and(|room| ground.is_short(self.load.to, room_pages(room), self.load.rules)))
    }

    fn has_searched(&self) -> bool {
        let wanted = self.load.expected_pages.saturating_mul(self.road.machine.page_bytes());
        self.searched_bytes >= wanted.saturating_mul(SEARCH_FACTOR).max(SEARCH_BYTES_MIN)
    }

    /// Why pages are missing after everything was gone through.
    fn left_over(&self) -> Short {
        if self.hauled.account.skipped_total() > 0 { Short::Refused } else { Short::NotThere }
    }
}

/// Ranges that are moved together.
#[derive(Default)]
struct Stretch {
    ranges: Vec<Range>,
    bytes: u64,
}

impl Stretch {
    fn is_full(&self, piece: Range, bytes_max: u64) -> bool {
        self.bytes + piece.bytes() > bytes_max || self.ranges.len() >= STRETCH_RANGES
    }

    fn add(&mut self, piece: Range) {
        self.bytes += piece.bytes();
        match self.ranges.last_mut() {
            Some(last) if last.end == piece.start => last.end = piece.end,
            _ => self.ranges.push(piece),
        }
    }
}
