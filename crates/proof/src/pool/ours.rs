//! The page pool as a contender, and the setup of all contenders.

use std::time::Duration;

use nodeward_linux::own;
use nodeward_pager::{PagePool, PageRun, PageSize, PoolOptions, Wanted};
use nodeward_policy::pcp::Tuning;

use super::Contender;
use super::source::{Kernel, Load, Run, Source, Taker};
use crate::Error;

/// Ratio of a zone's size to the maximum in use, as its lists hold an eighth of it.
const ZONE_SHARE: u64 = 8;

/// Base pages of an untuned list: four batches, as in a pool with default options.
pub const HIGH_DEFAULT: u32 = 4 * PoolOptions::BATCH;

/// A contender that is ready.
pub struct Player {
    /// Its kind.
    pub contender: Contender,
    /// Its operations.
    pub taker: Box<dyn Taker>,
    /// The pool, if it is one, for its statistics.
    pub pool: Option<PagePool>,
}

/// The setup of a contender.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Load of each thread.
    pub load: Load,
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

impl Setting {
    /// Returns the size of a zone whose lists may become as long as a CPU's load.
    fn zone_bytes(&self) -> u64 {
        let threads_per_cpu = (self.threads as usize).div_ceil(self.cpus.max(1));
        let depth = (self.load.bytes * threads_per_cpu) as u64;
        ZONE_SHARE * self.cpus as u64 * depth
    }

    fn page(&self) -> PageSize {
        match (self.huge || self.load.order > 0) && own::why_no_huge_pages().is_none() {
            true => PageSize::Huge,
            false => PageSize::Base,
        }
    }

    /// Opens a pool for it.
    pub fn pool(&self, tuning: Tuning) -> Result<PagePool, Error> {
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

impl Player {
    /// Sets up a contender that is built in.
    ///
    /// # Errors
    /// If a pool cannot be opened.
    pub fn new(contender: Contender, setting: &Setting) -> Result<Self, Error> {
        debug_assert!(contender.is_built_in(), "{contender} is not here");
        let load = setting.load;
        let pool = contender.tuning().map(|tuning| setting.pool(tuning)).transpose()?;
        let taker: Box<dyn Taker> = match (contender, &pool) {
            (_, Some(pool)) => Box::new(Ours { pool: pool.clone(), load }),
            #[cfg(feature = "peers")]
            (Contender::Mimalloc, _) => super::peers::mimalloc(load),
            #[cfg(feature = "peers")]
            (Contender::Jemalloc, _) => super::peers::jemalloc(load),
            _ => Box::new(Kernel(load)),
        };
        Ok(Self { contender, taker, pool })
    }
}

/// A pool and the load that is taken from it.
struct Ours {
    pool: PagePool,
    load: Load,
}

impl Source for Ours {
    type Run<'a> = PageRun<'a>;

    fn load(&self) -> Load {
        self.load
    }

    fn take(&self) -> Result<PageRun<'_>, Error> {
        let wanted =
            Wanted { order: self.load.order, zeroed: self.load.zeroed, ..Wanted::default() };
        Ok(self.pool.run(&wanted)?)
    }
}

impl Run for PageRun<'_> {
    fn content(&mut self) -> &mut [u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a list may become as long as the load of its CPU's threads: an eighth of the zone,
    /// shared by two CPUs, is 16 MiB each where each CPU has two threads of 8 MiB.
    #[test]
    fn zones_have_room_for_long_lists() {
        let load = Load { bytes: 8 << 20, order: 0, zeroed: false, page_bytes: 4096 };
        let period = Duration::from_secs(1);
        let setting =
            |threads| Setting { load, huge: false, threads, cpus: 2, period, housekeeper: false };
        assert_eq!(setting(4).zone_bytes() / 8 / 2, 16 << 20);
        assert_eq!(setting(1).zone_bytes() / 8 / 2, 8 << 20);
    }

    /// Goal: each contender hands out the requested memory, and zeroed memory is zero.
    #[test]
    fn everybody_plays() {
        for zeroed in [false, true] {
            let load = Load { bytes: 4 << 20, order: 9, zeroed, page_bytes: 4096 };
            let period = Duration::from_secs(1);
            let setting =
                Setting { load, huge: false, threads: 1, cpus: 1, period, housekeeper: false };
            for contender in Contender::ALL.into_iter().filter(|who| who.is_built_in()) {
                let player = Player::new(contender, &setting).unwrap();
                assert_eq!(player.taker.pass(Duration::ZERO).unwrap().bytes, 4 << 20);
                let dirt = player.taker.count_dirt().unwrap();
                assert!(!zeroed || dirt == 0, "{contender}: {dirt} dirty bytes");
            }
        }
    }
}
