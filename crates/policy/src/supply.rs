//! Which destination pages are the cheaper ones: those that earlier migrations left behind, or
//! fresh ones.
//!
//! Kept pages save their allocation. But mapping one takes it out of its slot, and before Linux
//! 6.18 UFFDIO_MOVE makes every CPU of the process flush each page for itself; with many CPUs that
//! costs more than an allocation. Which is more depends on the machine and on the program, so it is
//! measured while pages move.

/// Batches after which the supply that is not in use is tried again: 3 % of them.
const TRY_EVERY: u32 = 32;
/// Kept pages are given up only if they cost a fifth more: they also save memory bandwidth that is
/// not seen here, that of zeros and of pages that are freed.
const WORSE: (u64, u64) = (6, 5);

/// Where the pages of a batch came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Earlier migrations.
    Kept,
    /// The kernel.
    Fresh,
}

/// What pages cost by their source, learned from batches.
#[derive(Clone, Copy, Debug, Default)]
pub struct SupplyCosts {
    kept_ps: Option<u64>,
    fresh_ps: Option<u64>,
    batches: u32,
}

impl SupplyCosts {
    /// Learns from a batch that moved so many base pages. Later batches count more.
    pub fn learn(&mut self, source: Source, pages: u64, took_ns: u64) {
        let Some(page_ps) = took_ns.saturating_mul(1000).checked_div(pages) else { return };
        let known = match source {
            Source::Kept => &mut self.kept_ps,
            Source::Fresh => &mut self.fresh_ps,
        };
        let before = known.unwrap_or(page_ps);
        // Rounded towards what was before, and never a sum that could overflow.
        *known = Some(before - before / 4 + page_ps / 4);
        self.batches = self.batches.wrapping_add(1);
    }

    /// Where the next batch should get its pages from, if there are kept ones.
    pub fn choice(&self) -> Source {
        let (usual, other) = match (self.kept_ps, self.fresh_ps) {
            (Some(kept), Some(fresh)) if kept / WORSE.0 > fresh / WORSE.1 => {
                (Source::Fresh, Source::Kept)
            }
            _ => (Source::Kept, Source::Fresh),
        };
        if self.batches % TRY_EVERY == TRY_EVERY - 1 { other } else { usual }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves batches of one page at these costs and counts those with kept pages.
    fn kept(kept_ns: u64, fresh_ns: u64, batches: u32) -> u32 {
        let mut costs = SupplyCosts::default();
        let mut kept = 0;
        for _ in 0..batches {
            let source = costs.choice();
            kept += u32::from(source == Source::Kept);
            let cost = if source == Source::Kept { kept_ns } else { fresh_ns };
            costs.learn(source, 1, cost);
        }
        kept
    }

    #[test]
    fn kept_pages_are_used_where_they_are_cheaper() {
        assert_eq!(kept(200, 400, 320), 310, "one in 32 tries the other");
        assert_eq!(kept(400, 400, 320), 310, "or as cheap");
        assert_eq!(kept(470, 400, 320), 310, "or not much dearer");
    }

    /// Goal: the first try of the other, after 31 batches, decides; then one in 32 looks back.
    #[test]
    fn fresh_pages_are_used_where_flushes_are_dear() {
        assert_eq!(kept(4000, 400, 320), 31 + 9);
    }

    /// Goal: what changed is noticed.
    #[test]
    fn a_program_that_grows_changes_the_choice() {
        let mut costs = SupplyCosts::default();
        costs.learn(Source::Kept, 512, 102_400);
        costs.learn(Source::Fresh, 512, 204_800);
        assert_eq!(costs.choice(), Source::Kept);
        (0..8).for_each(|_| costs.learn(Source::Kept, 512, 1_024_000));
        assert_eq!(costs.choice(), Source::Fresh);
        costs.learn(Source::Fresh, 0, 5);
        assert_eq!(costs.choice(), Source::Fresh, "an empty batch tells nothing");
    }
}
