//! Chooses the next pages to read, until the estimate is good enough.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, PageLocation, Range};

use super::interval::{self, Interval, WHOLE_PPM};
use super::{CENSUS_PAGES, PILOT_PROBES, PageSequence, ROUND_GROWTH, STRATA, SplitMix64, Stratum};

/// The cost of a probe that finds nothing in units of listing a present page: about 1 us against 10
/// ns (the kernel walks page tables in order, while a miss is looked up twice).
const LISTED_PAGES_PER_PROBE: u64 = 100;

/// Limit on rebuilding the line from populated ranges: once is enough unless they changed.
const SCANS_MAX: u32 = 1;

/// Hits after which the densities of the strata are known well enough to allocate probes by them.
const EXPLORED_HITS: u64 = 64;

/// The sum of all weights, as a fixed-point number.
const WEIGHT_ONE: u128 = 1 << 40;

/// The accuracy that a survey aims at, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingGoal {
    /// Limit on the half-width of an interval, in millionths of all pages on nodes.
    pub half_width_ppm: u64,
    /// Pages to be found on nodes at least, even if the result is already accurate.
    pub hits_min: u64,
    /// Probes after which the survey ends with the present estimate.
    pub probes_max: u64,
    /// True if the machine can list populated ranges.
    pub can_scan: bool,
}

impl Default for SamplingGoal {
    /// Two points, and up to 2^20 probes (about a second where nothing is found).
    fn default() -> Self {
        Self { half_width_ppm: 20_000, hits_min: 0, probes_max: 1 << 20, can_scan: false }
    }
}

/// The next step of a survey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SamplingStep {
    /// Locate these addresses and pass the places to [`ResidencySampler::record`].
    Probe(Vec<u64>),
    /// List the populated parts of these ranges and pass them to
    /// [`ResidencySampler::restrict_to_populated`].
    Scan(Vec<Range>),
    /// The survey has ended.
    Done(SamplingEnd),
}

/// The reason why a survey ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingEnd {
    /// Every page was read.
    Census,
    /// The goal was met.
    GoalReached,
    /// The limit on probes was reached.
    ProbesExhausted,
}

impl SamplingEnd {
    /// Returns true unless the limit on probes ended the survey.
    pub fn is_complete(self) -> bool {
        self != Self::ProbesExhausted
    }
}

/// The estimate for one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEstimate {
    /// Pages on the node.
    pub pages: u64,
    /// The node's share of all pages on nodes.
    pub share: Interval,
}

/// The estimate for the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The nodes on which pages were found.
    pub nodes: BTreeMap<NodeId, NodeEstimate>,
    /// Pages on nodes.
    pub on_nodes: u64,
    /// Pages in swap.
    pub swapped: u64,
    /// Pages that are in memory and never move.
    pub unmovable: u64,
    /// True if every page was read.
    pub exact: bool,
}

/// A survey of one line.
#[derive(Clone, Debug)]
pub struct ResidencySampler {
    sequence: PageSequence,
    goal: SamplingGoal,
    rng: SplitMix64,
    strata: Vec<Stratum>,
    // Of each stratum on the probes; none as long as all claim alike.
    allocation_weights: Option<Vec<u64>>,
    pending: Vec<(usize, usize)>, // stratum, probes of it that wait for their places
    discarded_probes: u64,        // probes that served another purpose than the estimate
    scans: u32,
    page_bytes: u64,
}

impl ResidencySampler {
    /// Returns a survey of page-aligned ranges in ascending order.
    pub fn new(ranges: Vec<Range>, page_bytes: u64, goal: SamplingGoal, seed: u64) -> Self {
        let mut survey = Self {
            sequence: PageSequence::new(Vec::new(), page_bytes),
            goal,
            rng: SplitMix64::new(seed),
            strata: Vec::new(),
            allocation_weights: None,
            pending: Vec::new(),
            discarded_probes: 0,
            scans: 0,
            page_bytes,
        };
        survey.set_ranges(ranges);
        survey
    }

    /// Returns the next step. Each step must be answered before the next one is requested.
    pub fn next_step(&mut self) -> SamplingStep {
        let drawn = self.drawn();
        if drawn == self.sequence.pages() {
            return SamplingStep::Done(SamplingEnd::Census);
        }
        if drawn == 0 {
            return self.pilot();
        }
        if self.should_scan() {
            return SamplingStep::Scan(self.sequence.ranges().to_vec());
        }
        if self.is_sparse() && self.allocation_weights.is_none() {
            return self.explore();
        }
        if self.is_goal_reached() {
            return SamplingStep::Done(SamplingEnd::GoalReached);
        }
        match self.goal.probes_max.saturating_sub(self.probes()) {
            0 => SamplingStep::Done(SamplingEnd::ProbesExhausted),
            left => self.round(left),
        }
    }

    /// Takes the places of the addresses of the last [`SamplingStep::Probe`], in their order.
    pub fn record(&mut self, places: &[PageLocation]) {
        let mut places = places.iter();
        for (stratum, count) in std::mem::take(&mut self.pending) {
            places.by_ref().take(count).for_each(|&place| self.strata[stratum].record(place));
        }
    }

    /// Takes the populated parts of the ranges of the last [`SamplingStep::Scan`], and starts
    /// again on them.
    pub fn restrict_to_populated(&mut self, populated: Vec<Range>) {
        self.discarded_probes += self.drawn();
        self.scans += 1;
        self.set_ranges(populated);
    }

    /// Returns the number of probes so far.
    pub fn probes(&self) -> u64 {
        self.discarded_probes + self.drawn()
    }

    /// Returns the number of pages found on nodes so far.
    pub fn hits(&self) -> u64 {
        self.strata.iter().map(Stratum::on_nodes).sum()
    }

    /// Returns the present estimate.
    pub fn estimate(&self) -> Estimate {
        let on_nodes = self.scaled(Stratum::on_nodes);
        let nodes = self.nodes();
        let known = nodes.iter().map(|&node| {
            let pages = self.scaled(|stratum| stratum.pages_on(node));
            (node, NodeEstimate { pages, share: self.share(node, nodes.len()) })
        });
        Estimate {
            nodes: known.collect(),
            on_nodes,
            swapped: self.scaled(Stratum::swapped),
            unmovable: self.scaled(Stratum::unmovable),
            exact: self.drawn() == self.sequence.pages(),
        }
    }

    fn set_ranges(&mut self, ranges: Vec<Range>) {
        self.sequence = PageSequence::new(ranges, self.page_bytes);
        let pages = self.sequence.pages();
        let count = if pages <= CENSUS_PAGES { 1 } else { STRATA };
        let edge = |i: u64| pages / count * i + (pages % count) * i / count;
        let stream = &mut self.rng;
        self.strata =
            (0..count).map(|i| Stratum::new(edge(i), edge(i + 1) - edge(i), stream)).collect();
    }

    fn drawn(&self) -> u64 {
        self.strata.iter().map(Stratum::drawn).sum()
    }

    fn pilot(&mut self) -> SamplingStep {
        let count = self.strata.len() as u64;
        let each = if count == 1 { CENSUS_PAGES } else { PILOT_PROBES / count };
        self.draw(|_| each)
    }

    /// Returns true if most probes find nothing.
    fn is_sparse(&self) -> bool {
        2 * self.hits() < self.drawn()
    }

    /// Compares the costs. Listing costs a little per present page, rejection sampling a lot per
    /// miss: with density d of V pages, V d against n / d probes for n hits. Few hits only show
    /// that d is small, not its value.
    fn should_scan(&self) -> bool {
        if !self.goal.can_scan || self.scans >= SCANS_MAX || !self.is_sparse() {
            return false;
        }
        let (hits, drawn) = (u128::from(self.hits()), u128::from(self.drawn()));
        let wanted = interval::sample_size_for(WHOLE_PPM / 2, self.goal.half_width_ppm, 3_841_459);
        let probes = u128::from(wanted.max(self.goal.hits_min) * LISTED_PAGES_PER_PROBE);
        hits == 0 || u128::from(self.sequence.pages()) * hits * hits < probes * drawn * drawn
    }

    /// Measures the density of each stratum, then starts again with probes by density. The probes
    /// that measured the density must not count in the estimate: a stratum that was unlucky in them
    /// would get few others, so its error would persist.
    fn explore(&mut self) -> SamplingStep {
        let drawn = self.drawn();
        let left = (self.goal.probes_max / 4).saturating_sub(self.probes());
        if self.hits() < EXPLORED_HITS && left > 0 {
            let more = (drawn * (ROUND_GROWTH - 1)).min(left);
            let each = more.div_ceil(self.strata.len() as u64);
            return self.draw(|_| each);
        }
        self.allocation_weights = Some(self.strata.iter().map(neyman_weight).collect());
        self.discarded_probes += drawn;
        self.set_ranges(self.sequence.ranges().to_vec());
        let count = drawn.clamp(PILOT_PROBES, EXPLORED_HITS * PILOT_PROBES);
        let due = self.allocate(count);
        self.draw(|stratum| due[stratum].max(4))
    }

    fn is_goal_reached(&self) -> bool {
        let nodes = self.nodes();
        let reach = |&node: &NodeId| self.share(node, nodes.len()).half_width_ppm();
        self.hits() >= self.goal.hits_min.max(1)
            && nodes.iter().map(reach).max().is_some_and(|reach| reach <= self.goal.half_width_ppm)
    }

    /// Draws until there are about as many samples as the present shares require.
    fn round(&mut self, left: u64) -> SamplingStep {
        let drawn = self.drawn();
        let hits = self.hits();
        let wanted = self.sample_size().max(self.goal.hits_min);
        let total = u128::from(drawn) * u128::from(wanted) / u128::from(hits.max(1));
        let total = u64::try_from(total + total / 32).unwrap_or(u64::MAX);
        let total = total.clamp(drawn + drawn / 4, drawn.saturating_mul(ROUND_GROWTH));
        let more = (total - drawn).min(left).max(1);
        let due = self.allocate(drawn + more);
        match self.draw(|stratum| due[stratum]) {
            // Full strata left nothing to draw where it was due: draw anywhere.
            SamplingStep::Probe(addresses) if addresses.is_empty() => {
                self.draw(|_| more.min(PILOT_PROBES))
            }
            step => step,
        }
    }

    fn sample_size(&self) -> u64 {
        let nodes = self.nodes();
        let z2 = interval::z2_ppm(nodes.len());
        let share = |&node: &NodeId| self.share(node, nodes.len()).ppm;
        let samples = |ppm| interval::sample_size_for(ppm, self.goal.half_width_ppm, z2);
        nodes.iter().map(share).map(samples).max().unwrap_or(PILOT_PROBES)
    }

    /// Returns the probes that each stratum still lacks, so that all have drawn `total`.
    fn allocate(&self, total: u64) -> Vec<u64> {
        let claims = match &self.allocation_weights {
            Some(claims) => claims.clone(),
            None => self.strata.iter().map(Stratum::pages).collect(),
        };
        let whole: u128 = claims.iter().copied().map(u128::from).sum();
        let due = |claim| u128::from(total) * u128::from(claim) / whole.max(1);
        let due = claims.into_iter().map(|claim| u64::try_from(due(claim)).unwrap_or(u64::MAX));
        due.zip(&self.strata).map(|(due, s)| due.saturating_sub(s.drawn())).collect()
    }

    fn draw(&mut self, count: impl Fn(usize) -> u64) -> SamplingStep {
        let mut pages = Vec::new();
        for (i, stratum) in self.strata.iter_mut().enumerate() {
            let before = pages.len();
            stratum.draw(count(i), &mut pages);
            self.pending.push((i, pages.len() - before));
        }
        SamplingStep::Probe(pages.into_iter().map(|page| self.sequence.address(page)).collect())
    }

    fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<_> = self.strata.iter().flat_map(Stratum::nodes).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Returns the weight of one probe of a stratum, as a part of [`WEIGHT_ONE`] for the whole
    /// line.
    fn weight(&self, stratum: &Stratum) -> u128 {
        let line = u128::from(self.sequence.pages().max(1)) * u128::from(stratum.drawn().max(1));
        u128::from(stratum.pages()) * WEIGHT_ONE / line
    }

    fn weighted_sum(&self, count: impl Fn(&Stratum) -> u64) -> u128 {
        self.strata.iter().map(|s| self.weight(s) * u128::from(count(s))).sum()
    }

    /// Scales a count up to all pages.
    fn scaled(&self, count: impl Fn(&Stratum) -> u64) -> u64 {
        let pages = |s: &Stratum| {
            let seen = u128::from(count(s)) * u128::from(s.pages());
            (2 * seen + u128::from(s.drawn())) / (2 * u128::from(s.drawn().max(1)))
        };
        u64::try_from(self.strata.iter().map(pages).sum::<u128>()).unwrap_or(u64::MAX)
    }

    fn share(&self, node: NodeId, nodes: usize) -> Interval {
        let whole = self.weighted_sum(Stratum::on_nodes).max(1);
        let part = self.weighted_sum(|stratum| stratum.pages_on(node));
        let ppm = u64::try_from((part * u128::from(WHOLE_PPM) + whole / 2) / whole).unwrap_or(0);
        match self.unseen_ppm() {
            0 => Interval::exact(ppm),
            unseen => {
                let milli = self.kish_size_milli().min(self.linearized_size_milli(node, ppm));
                let milli = u128::from(milli) * u128::from(WHOLE_PPM) / u128::from(unseen);
                let milli = u64::try_from(milli).unwrap_or(u64::MAX);
                interval::wilson(ppm, milli, interval::z2_ppm(nodes))
            }
        }
    }

    /// Returns the part of the pages that was not read, of the stratum with most of them: a
    /// conservative finite population correction.
    fn unseen_ppm(&self) -> u64 {
        let unseen = |s: &Stratum| {
            let left = u128::from(s.pages() - s.drawn()) * u128::from(WHOLE_PPM);
            u64::try_from(left / u128::from(s.pages().max(1))).unwrap_or(WHOLE_PPM)
        };
        self.strata.iter().map(unseen).max().unwrap_or(0)
    }

    /// Returns Kish's effective sample size, (sum of weights)² / sum of squared weights, in
    /// thousandths.
    fn kish_size_milli(&self) -> u64 {
        let sum = self.weighted_sum(Stratum::on_nodes);
        let squares: u128 = self
            .strata
            .iter()
            .map(|s| (self.weight(s) >> 8).pow(2) * u128::from(s.on_nodes()))
            .sum();
        let sum = sum >> 8;
        u64::try_from((sum * sum).saturating_mul(1000) / squares.max(1)).unwrap_or(u64::MAX)
    }

    /// Returns the sample size with the variance of the ratio estimator (linearised, within
    /// strata), in thousandths: smaller than Kish's where the pages of a node are in thinly probed
    /// strata.
    fn linearized_size_milli(&self, node: NodeId, ppm: u64) -> u64 {
        let p = u128::from(ppm / 100); // hundredths of a percent: 10^4 is one
        let q = 10_000 - p;
        let variance: u128 =
            self.strata.iter().map(|s| self.variance(s, s.pages_on(node), p)).sum();
        let whole = self.weighted_sum(Stratum::on_nodes) >> 8;
        match (p * q * 1000 * whole * whole).checked_div(variance) {
            Some(milli) if p * q > 0 => u64::try_from(milli).unwrap_or(u64::MAX),
            Some(_) | None => u64::MAX, // one node alone, or no spread at all: Kish's size decides
        }
    }

    /// Returns weight² times the sum of squared residuals, scaled up for few probes; a residual is
    /// 1 - p for a page on the node, -p for one on another, 0 for none.
    fn variance(&self, stratum: &Stratum, on: u64, p: u128) -> u128 {
        let drawn = u128::from(stratum.drawn());
        if drawn < 2 || stratum.on_nodes() == 0 {
            return 0;
        }
        let (on, all) = (u128::from(on), u128::from(stratum.on_nodes()));
        let q = 10_000 - p;
        let squares = on * q * q + (all - on) * p * p;
        let sum = (on * q).abs_diff((all - on) * p);
        let spread = squares - (sum * sum / drawn).min(squares);
        (self.weight(stratum) >> 8).pow(2) * (spread * drawn / (drawn - 1))
    }
}

/// Returns the weight of a stratum by Neyman's rule: probes in proportion to pages times the square
/// root of the density. The density is taken as (hits + 1/2) / (probes + 1), so that an empty
/// stratum still gets probes.
fn neyman_weight(stratum: &Stratum) -> u64 {
    let density_ppm = (2 * stratum.on_nodes() + 1) * WHOLE_PPM / (2 * stratum.drawn() + 2);
    stratum.pages().saturating_mul((density_ppm * WHOLE_PPM).isqrt() / 1000)
}
