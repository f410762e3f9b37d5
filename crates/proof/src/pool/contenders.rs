//! The contenders: their names, their setup, and the page pool as one of them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use nodeward_linux::own_process;
use nodeward_pager::{PagePool, PageRun, PageSize, PoolOptions, RunRequest};
use nodeward_policy::pcp::TunerKind;
use serde::Serialize;

use super::workload::{AllocatedRun, AllocatorWorkload, MmapAllocator, PassLoad, RunAllocator};
use crate::Error;

/// Ratio of a zone's size to the maximum in use, as its lists hold an eighth of it.
const ZONE_FACTOR: u64 = 8;

/// Base pages of an untuned list: four batches, as in a pool with default options.
pub const HIGH_DEFAULT: u32 = 4 * PoolOptions::BATCH;

/// An allocator that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolContender {
    /// The kernel: mmap, touch, munmap.
    Kernel,
    /// mimalloc, which calls itself a general purpose allocator.
    Mimalloc,
    /// jemalloc, likewise.
    Jemalloc,
    /// A page pool whose lists have a fixed length.
    PoolFixed,
    /// A page pool whose lists follow the depth of allocations and frees.
    PoolDepth,
    /// A page pool whose lists grow when they run empty or full.
    PoolEvents,
}

impl PoolContender {
    /// All contenders, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::Kernel,
        Self::Mimalloc,
        Self::Jemalloc,
        Self::PoolFixed,
        Self::PoolDepth,
        Self::PoolEvents,
    ];

    /// The contenders that others are compared with.
    pub const REFERENCES: [Self; 3] = [Self::Kernel, Self::Mimalloc, Self::Jemalloc];

    /// Returns the name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Mimalloc => "mimalloc",
            Self::Jemalloc => "jemalloc",
            Self::PoolFixed => "pool-fixed",
            Self::PoolDepth => "pool-depth",
            Self::PoolEvents => "pool-events",
        }
    }

    /// Returns the tuning of a pool; `None` for other allocators.
    pub fn tuning(self) -> Option<TunerKind> {
        match self {
            Self::Kernel | Self::Mimalloc | Self::Jemalloc => None,
            Self::PoolFixed => Some(TunerKind::Fixed),
            Self::PoolDepth => Some(TunerKind::Depth),
            Self::PoolEvents => Some(TunerKind::Events),
        }
    }

    /// Returns whether this program includes it.
    pub fn is_built_in(self) -> bool {
        !matches!(self, Self::Mimalloc | Self::Jemalloc) || cfg!(feature = "peers")
    }
}

impl fmt::Display for PoolContender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PoolContender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|contender| contender.name() == text);
        found.ok_or_else(|| format!("expected one of {}", names()))
    }
}

/// A contender that is ready.
pub struct ReadyContender {
    /// Its kind.
    pub contender: PoolContender,
    /// Its operations.
    pub workload: Box<dyn AllocatorWorkload>,
    /// The pool, if it is one, for its statistics.
    pub pool: Option<PagePool>,
}

/// The setup of a contender.
#[derive(Clone, Copy, Debug)]
pub struct PoolSetup {
    /// Load of each thread.
    pub load: PassLoad,
    /// Use huge pages in a pool also for single base pages.
    pub huge: bool,
    /// Number of threads.
    pub threads: u32,
    /// Number of CPUs.
    pub cpus: usize,
    /// Tuning period.
    pub period: Duration,
    /// Start a housekeeper thread.
    pub housekeeper: bool,
}

impl PoolSetup {
    /// Returns the size of a zone whose lists may become as long as a CPU's load.
    fn zone_bytes(&self) -> u64 {
        let threads_per_cpu = (self.threads as usize).div_ceil(self.cpus.max(1));
        let depth = (self.load.bytes * threads_per_cpu) as u64;
        ZONE_FACTOR * self.cpus as u64 * depth
    }

    fn page(&self) -> PageSize {
        match (self.huge || self.load.order > 0) && own_process::huge_pages_unavailable().is_none()
        {
            true => PageSize::Huge,
            false => PageSize::Base,
        }
    }

    /// Opens a pool for it.
    pub fn pool(&self, tuning: TunerKind) -> Result<PagePool, Error> {
        Ok(PagePool::open(&PoolOptions {
            tuning,
            page: self.page(),
            zone_bytes: Some(self.zone_bytes()),
            high_default: Some(HIGH_DEFAULT),
            period: self.period,
            housekeeper: self.housekeeper,
            ..PoolOptions::default()
        })?)
    }
}

impl ReadyContender {
    /// Sets up a contender that is built in.
    ///
    /// # Errors
    /// If a pool cannot be opened.
    pub fn new(contender: PoolContender, setting: &PoolSetup) -> Result<Self, Error> {
        debug_assert!(contender.is_built_in(), "{contender} is not here");
        let load = setting.load;
        let pool = contender.tuning().map(|tuning| setting.pool(tuning)).transpose()?;
        let taker: Box<dyn AllocatorWorkload> = match (contender, &pool) {
            (_, Some(pool)) => Box::new(PoolAllocator { pool: pool.clone(), load }),
            #[cfg(feature = "peers")]
            (PoolContender::Mimalloc, _) => super::c_allocators::mimalloc(load),
            #[cfg(feature = "peers")]
            (PoolContender::Jemalloc, _) => super::c_allocators::jemalloc(load),
            _ => Box::new(MmapAllocator(load)),
        };
        Ok(Self { contender, workload: taker, pool })
    }
}

/// A pool and the load that is taken from it.
struct PoolAllocator {
    pool: PagePool,
    load: PassLoad,
}

impl RunAllocator for PoolAllocator {
    type Run<'a> = PageRun<'a>;

    fn load(&self) -> PassLoad {
        self.load
    }

    fn allocate(&self) -> Result<PageRun<'_>, Error> {
        let wanted = RunRequest {
            order: self.load.order,
            zeroed: self.load.zeroed,
            ..RunRequest::default()
        };
        Ok(self.pool.run(&wanted)?)
    }
}

impl AllocatedRun for PageRun<'_> {
    fn content(&mut self) -> &mut [u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_have_names() {
        for contender in PoolContender::ALL {
            assert_eq!(contender.name().parse(), Ok(contender));
        }
        let refused = "malloc".parse::<PoolContender>().unwrap_err();
        assert!(refused.contains("jemalloc, pool-fixed"), "{refused}");
    }

    /// Goal: a list may become as long as the load of its CPU's threads: an eighth of the zone,
    /// shared by two CPUs, is 16 MiB each where each CPU has two threads of 8 MiB.
    #[test]
    fn zones_have_room_for_long_lists() {
        let load = PassLoad { bytes: 8 << 20, order: 0, zeroed: false, page_bytes: 4096 };
        let period = Duration::from_secs(1);
        let setting =
            |threads| PoolSetup { load, huge: false, threads, cpus: 2, period, housekeeper: false };
        assert_eq!(setting(4).zone_bytes() / 8 / 2, 16 << 20);
        assert_eq!(setting(1).zone_bytes() / 8 / 2, 8 << 20);
    }

    /// Goal: each contender hands out the requested memory, and zeroed memory is zero.
    #[test]
    fn everybody_plays() {
        for zeroed in [false, true] {
            let load = PassLoad { bytes: 4 << 20, order: 9, zeroed, page_bytes: 4096 };
            let period = Duration::from_secs(1);
            let setting =
                PoolSetup { load, huge: false, threads: 1, cpus: 1, period, housekeeper: false };
            for contender in PoolContender::ALL.into_iter().filter(|who| who.is_built_in()) {
                let player = ReadyContender::new(contender, &setting).unwrap();
                assert_eq!(player.workload.pass(Duration::ZERO).unwrap().bytes, 4 << 20);
                let dirt = player.workload.count_dirty_bytes().unwrap();
                assert!(!zeroed || dirt == 0, "{contender}: {dirt} dirty bytes");
            }
        }
    }
}
