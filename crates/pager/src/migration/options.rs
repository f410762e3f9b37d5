//! Options of a migration, its progress, and the request to end it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::chunk::CHUNK_BYTES;
use crate::error::{Error, Result};
use crate::region::{Arrive, RegionShared};

/// The source of destination pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Supply {
    /// Recycled pages while there are some, then fresh ones; or the kind that is measured to be
    /// cheaper.
    #[default]
    Any,
    /// Recycled pages only.
    Recycled,
    /// Fresh pages only.
    OneWay,
}

/// Limits on the rate of a migration and on stalls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// Maximum rate in bytes a second, of all lanes together; `None`: no limit.
    pub bytes_per_s: Option<u64>,
    /// Maximum time that a thread waits for a page in flight, in 99 of 100 cases; `None`: no
    /// limit.
    pub stall: Option<Duration>,
}

/// Options of a migration.
#[derive(Clone, Copy, Default)]
pub struct Migration<'a> {
    /// Limits on rate and stalls.
    pub budget: Budget,
    /// Maximum number of lanes, at least 1; a range that is too short to share gets fewer. `None`:
    /// as many as are worth it.
    pub lanes: Option<u32>,
    /// Bytes in flight per lane, from one page of the region to 2 MiB; `None`: 2 MiB.
    pub batch_bytes: Option<u64>,
    /// Source of destination pages.
    pub supply: Supply,
    /// Size of the pages at the destination; `None`: as the region has it.
    pub arrive: Option<Arrive>,
    /// Move pages that are on the destination node already, too. For measurements.
    pub even_if_there: bool,
    /// Called on the calling thread, every 50 ms and at the end.
    pub progress: Option<&'a dyn Fn(Progress)>,
    /// Ends the migration between two batches when cancelled.
    pub cancel: Option<&'a Cancel>,
}

impl fmt::Debug for Migration<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migration")
            .field("budget", &self.budget)
            .field("lanes", &self.lanes)
            .field("batch_bytes", &self.batch_bytes)
            .field("supply", &self.supply)
            .field("arrive", &self.arrive)
            .field("even_if_there", &self.even_if_there)
            .finish_non_exhaustive()
    }
}

/// Whether base pages arrive as huge pages, as [`Arrive::Huge`] has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugeArrival {
    /// Nobody asked for it.
    #[default]
    NotWanted,
    /// It was asked for, and does not work with this kernel or these options.
    Impossible,
    /// It was asked for, and is tried for each chunk.
    Possible,
}

impl HugeArrival {
    /// Returns whether huge pages were asked for, so that what cannot have one moves without.
    pub fn is_wanted(self) -> bool {
        self != Self::NotWanted
    }
}

/// The options of a migration that its batches need. The job has the one value, and batches borrow
/// it.
#[derive(Clone, Copy, Default)]
pub struct MoveOptions {
    /// Limits on rate and stalls.
    pub budget: Budget,
    /// Destination pages to use.
    pub supply: Supply,
    /// Whether base pages arrive as huge pages.
    pub huge_arrival: HugeArrival,
    /// Maximum number of base pages in a batch.
    pub batch_pages: usize,
    /// Move pages that are on the destination already, too.
    pub even_if_there: bool,
}

impl Migration<'_> {
    /// Returns whether nothing is asked for that only lanes do: a pace, a number of lanes, or an
    /// end that was asked for before the beginning.
    pub(crate) fn is_plain(&self) -> bool {
        let Budget { bytes_per_s, stall } = self.budget;
        let is_paced = bytes_per_s.is_some() || stall.is_some();
        let is_cancelled = self.cancel.is_some_and(Cancel::is_cancelled);
        !is_paced && self.lanes.is_none() && !is_cancelled
    }

    /// Checks the options. Returns those that batches need. `region` is there if the pager moves
    /// the pages.
    pub(crate) fn move_options(
        &self,
        page_bytes: usize,
        region: Option<&RegionShared>,
    ) -> Result<MoveOptions> {
        let batch_bytes = self.batch_bytes.unwrap_or(CHUNK_BYTES as u64);
        let page_bytes = page_bytes as u64;
        if batch_bytes < page_bytes || batch_bytes > CHUNK_BYTES as u64 {
            return Err(Error::BadOption {
                problem: format!("batches of {batch_bytes} bytes"),
                remedy: format!("{page_bytes} (one page) to {CHUNK_BYTES} (2 MiB) are possible"),
            });
        }
        if self.lanes == Some(0) {
            return Err(Error::BadOption {
                problem: "0 lanes".to_owned(),
                remedy: "ask for at least one, or for as many as pay (none named)".to_owned(),
            });
        }
        Ok(MoveOptions {
            budget: self.budget,
            supply: self.supply,
            huge_arrival: region.map(|region| self.huge_arrival(region)).unwrap_or_default(),
            batch_pages: (batch_bytes / page_bytes) as usize,
            even_if_there: self.even_if_there,
        })
    }

    fn huge_arrival(&self, region: &RegionShared) -> HugeArrival {
        match self.arrive.unwrap_or(region.arrive) {
            Arrive::AsTheyLeave => HugeArrival::NotWanted,
            Arrive::Huge if self.supply == Supply::Recycled => HugeArrival::Impossible,
            Arrive::Huge if region.context.can_arrive_huge() => HugeArrival::Possible,
            Arrive::Huge => HugeArrival::Impossible,
        }
    }
}

/// Progress of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes whose pages had their turn, whether they moved or stayed.
    pub examined_bytes: u64,
    /// Bytes of the range, or of both ranges of an exchange.
    pub total_bytes: u64,
}

/// A request to end a migration. Any thread, or a signal handler, may make it. Clones are the same
/// request.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A request that is not made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests the end of the migration.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the end was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
