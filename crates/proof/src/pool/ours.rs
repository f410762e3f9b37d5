//! The page pool as a contender, and the others by their names.

use std::time::Duration;

use nodeward_linux::own;
use nodeward_pager::{PagePool, PageRun, PageSize, PoolOptions, Wanted};
use nodeward_policy::pcp::Tuning;

use super::Contender;
use super::source::{Kernel, Load, Run, Source, Taker};
use crate::Error;

/// A zone is so many times as large as what is in use at most, as its lists hold an eighth of it.
const ZONE_SHARE: u64 = 8;

/// Base pages of a list that nobody tuned: four batches, as in a pool without options.
pub const HIGH_DEFAULT: u32 = 4 * PoolOptions::BATCH;

/// Somebody who takes part.
pub struct Player {
    /// Who.
    pub contender: Contender,
    /// What threads call.
    pub taker: Box<dyn Taker>,
    /// To look at, if it is a pool.
    pub pool: Option<PagePool>,
}

/// How a pool is set up for a load.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What each thread takes.
    pub load: Load,
    /// Whether a pool has huge pages also for single base pages.
    pub huge: bool,
    /// How many threads there are.
    pub threads: u32,
    /// On so many CPUs.
    pub cpus: usize,
    /// The period of tuning.
    pub period: Duration,
    /// Whether somebody looks after the pool in each period.
    pub housekeeper: bool,
}

impl Setting {
    /// Bytes of a zone whose lists may become as long as a CPU's load.
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

    /// A pool for it.
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
    /// Gets somebody ready who is built in.
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

/// A pool and what is taken from it.
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

    /// Goal: a list may become as long as what the threads of its CPU take: an eighth of the zone,
    /// shared by two CPUs, is 16 MiB where each has two threads of 8 MiB.
    #[test]
    fn zones_have_room_for_long_lists() {
        let load = Load { bytes: 8 << 20, order: 0, zeroed: false, page_bytes: 4096 };
        let period = Duration::from_secs(1);
        let setting =
            |threads| Setting { load, huge: false, threads, cpus: 2, period, housekeeper: false };
        assert_eq!(setting(4).zone_bytes() / 8 / 2, 16 << 20);
        assert_eq!(setting(1).zone_bytes() / 8 / 2, 8 << 20);
    }

    /// Goal: each contender hands out what is asked for, and zeroed memory is zero.
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
