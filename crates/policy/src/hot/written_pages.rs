//! Single pages by who writes them: write faults choose, sampled time confirms.
//!
//! A page that faults when it is next written tells its writer exactly, but not how often it is
//! used, nor who reads it. Sampled time tells how long threads are at pages, but not of each page.
//! So both are asked: the pages whose every write was by one node are the choice, and the time that
//! all threads were sampled at these pages says what it saves. The samples had no part in the
//! choice, and cover all users of the pages, so their sum needs no correction. Where all nodes
//! write all pages, the first writer of each is chance, and samples of others cancel it.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

use super::costs::saturating_u64;
use super::evidence::OTHERS_ONE_IN;
use super::samples::SampleHistory;
use super::time_rules::{SAVED_NS_MIN, TimeRules};
use super::{FolioLocation, HotMove};

/// Samples at chosen pages without which nothing is said: their share by the writer is known to
/// about one in sixteen.
const USES_MIN: u64 = 64;
/// Faults that are kept at most, 16 MiB of them.
const FAULTS_MAX: usize = 1 << 20;
/// The cost of a write fault to the process, in nanoseconds: 0.5 to 2.4 us natively.
const WRITE_FAULT_NS: u64 = 2_000;
/// If samples confirm less than one in so many parts of the promised time, the pages have no owner,
/// and more rounds would find none.
const OWNED_ONE_IN: i128 = 4;

/// Pages by the node of their writers, from rounds of write faults: one fault a round at most.
#[derive(Clone, Debug, Default)]
pub struct PageWriters {
    /// In no order within a round: there are as many as pages, so they are sorted once.
    faults: Vec<(u64, NodeId)>,
    rounds: u64,
}

impl PageWriters {
    /// Adds write faults, each with the node of its thread. Further ones than a million are
    /// dropped: their pages stay.
    pub fn add(&mut self, faults: impl Iterator<Item = (u64, NodeId)>) {
        self.faults.extend(faults.take(FAULTS_MAX - self.faults.len()));
    }

    /// Ends a round.
    pub fn end_round(&mut self) {
        self.faults.sort_unstable();
        self.rounds += 1;
    }

    /// Iterates over the addresses of the written pages: those of rounds that ended in ascending
    /// order.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.faults.iter().map(|&(address, _)| address)
    }

    /// Returns the faults by page, in ascending order.
    fn sorted(&self, page_bytes: u64) -> Vec<(u64, NodeId)> {
        let pages = self.faults.iter().map(|&(address, node)| (address & !(page_bytes - 1), node));
        let mut pages: Vec<_> = pages.collect();
        pages.sort_unstable();
        pages
    }

    /// Returns the node of nearly all faults of a folio, if there are as many as two rounds need.
    fn owner(&self, faults: &[(u64, NodeId)]) -> Option<NodeId> {
        let mut by_node: Vec<(NodeId, u64)> = Vec::new();
        for &(_, node) in faults {
            match by_node.iter_mut().find(|one| one.0 == node) {
                Some(one) => one.1 += 1,
                None => by_node.push((node, 1)),
            }
        }
        let &(owner, most) = by_node.iter().max_by_key(|&&(node, count)| (count, node))?;
        let all = faults.len() as u64;
        let is_owned = (all - most) * OTHERS_ONE_IN <= all && all >= self.rounds.min(2);
        is_owned.then_some(owner)
    }
}

/// The verdict of samples on the pages that one node writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenPages {
    /// These folios go to their writers, in ascending order of their address.
    Move(Vec<HotMove>),
    /// Another round may tell more.
    Unclear,
    /// The pages have no owners, or to move them does not pay.
    Stay,
}

impl WrittenPages {
    /// Returns the folios that go to their writers.
    pub fn into_folios(self) -> Vec<HotMove> {
        if let Self::Move(moves) = self { moves } else { Vec::new() }
    }
}

/// The folios that go elsewhere, and what samples say of them.
struct WriterChoice {
    moves: Vec<HotMove>,
    owners: Vec<NodeId>,
    cost_ns: u64,
}

/// The time saved by a choice, in nanoseconds within the horizon.
#[derive(Default)]
struct Savings {
    uses: u64,
    /// If each sampled use were by the writer.
    promised_ns: i128,
    saved_ns: i128,
}

/// Chooses folios by their writers, and asks the samples. `place_of` maps the address of a page to
/// its folio and place; it is called once for each folio.
pub fn plan_written_pages(
    history: &SampleHistory,
    writers: &PageWriters,
    place_of: impl Fn(u64) -> Option<FolioLocation>,
    rules: &TimeRules,
) -> WrittenPages {
    let choice = choose(writers, history.page_bytes(), place_of, rules);
    let Savings { uses, promised_ns, saved_ns } = savings(history, &choice, rules);
    let pays = |ns: i128| ns > i128::from(choice.cost_ns.max(SAVED_NS_MIN));
    if uses < USES_MIN || !pays(promised_ns) || saved_ns * OWNED_ONE_IN < promised_ns {
        return WrittenPages::Stay;
    }
    match pays(saved_ns) && saved_ns * 2 >= promised_ns {
        true => WrittenPages::Move(with_savings(choice.moves, saved_ns)),
        false => WrittenPages::Unclear,
    }
}

/// The time that threads wait for remote memory, by samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteTime {
    /// The time that threads would save within the horizon if each sampled use were local, in
    /// nanoseconds: no placement saves more.
    pub saved_ns: u64,
    /// The part of the sampled accesses that are remote, in ppm: slow ones are sampled more often,
    /// and count less for that.
    pub remote_ppm: u64,
    /// The mean cost of moving a page of these, in nanoseconds.
    pub page_ns: u64,
}

impl RemoteTime {
    /// Returns whether more can be saved than it costs to ask who writes so many pages and to move
    /// their remote part.
    pub fn is_worth_faults(&self, pages: u64) -> bool {
        let moves = u128::from(pages) * u128::from(self.remote_ppm) / 1_000_000;
        let moves_ns = moves.saturating_mul(u128::from(self.page_ns));
        let faults_ns = u128::from(pages) * u128::from(WRITE_FAULT_NS);
        u128::from(self.saved_ns) > moves_ns.saturating_add(faults_ns)
    }
}

/// Returns what the samples of a history say of remote memory.
pub fn remote_time(history: &SampleHistory, rules: &TimeRules) -> RemoteTime {
    let (mut accesses, mut remote, mut moves_ns, mut saved_ns) = (0_u128, 0_u128, 0_u128, 0_i128);
    for one in history.periods().flat_map(|(uses, _)| uses) {
        let to = rules.nearest(one.user).unwrap_or(one.on);
        let saved = rules.saved_ns(u128::from(one.ns), one.user, (one.on, to));
        let weight = rules.access_weight(one.user, one.on);
        accesses += weight;
        if saved > 0 {
            let page_ns = rules.costs.move_ns(history.page_bytes(), one.on, to);
            remote += weight;
            moves_ns = moves_ns.saturating_add(weight.saturating_mul(page_ns.into()));
            saved_ns = saved_ns.saturating_add(saved);
        }
    }
    let saved_ns = rules.within_horizon(saved_ns, sampled_ns(history));
    RemoteTime {
        saved_ns: saturating_u64(saved_ns.unsigned_abs()),
        remote_ppm: saturating_u64((remote * 1_000_000).checked_div(accesses).unwrap_or(0)),
        page_ns: saturating_u64(moves_ns / remote.max(1)),
    }
}

/// Returns the length of all periods together, in nanoseconds.
fn sampled_ns(history: &SampleHistory) -> u64 {
    history.periods().fold(0, |sum, (_, ns)| sum.saturating_add(ns))
}

/// Returns the folios whose writer is on another node, as far as there is room.
fn choose(
    writers: &PageWriters,
    page_bytes: u64,
    place_of: impl Fn(u64) -> Option<FolioLocation>,
    rules: &TimeRules,
) -> WriterChoice {
    let mut choice = WriterChoice { moves: Vec::new(), owners: Vec::new(), cost_ns: 0 };
    let mut destinations = DestinationTable { rules, page_bytes, known: BTreeMap::new() };
    let mut room = rules.room.clone();
    let faults = writers.sorted(page_bytes);
    let mut left = &faults[..];
    while let Some(&(page, _)) = left.first() {
        let folio = place_of(page);
        let end =
            folio.map_or(page + page_bytes, |it| it.address + page_bytes * u64::from(it.pages));
        let of_folio = left.partition_point(|fault| fault.0 < end).max(1);
        let (of_folio, others) = left.split_at(of_folio);
        left = others;
        let (Some(folio), Some(owner)) = (folio, writers.owner(of_folio)) else { continue };
        let Some((to, cost_ns)) = destinations.of(folio, owner) else { continue };
        if room.take(to, u64::from(folio.pages)) {
            choice.cost_ns = choice.cost_ns.saturating_add(cost_ns);
            choice.owners.push(owner);
            let FolioLocation { address, pages, node: from } = folio;
            choice.moves.push(HotMove { address, pages, from, to, saved_ns: 0, cost_ns });
        }
    }
    choice
}

/// A folio's node and size, and the node of its owner.
type DestinationKey = (NodeId, u32, NodeId);

/// The destinations of folios, with the costs. There are few cases, and many folios.
struct DestinationTable<'a> {
    rules: &'a TimeRules,
    page_bytes: u64,
    known: BTreeMap<DestinationKey, Option<(NodeId, u64)>>,
}

impl DestinationTable<'_> {
    /// Returns the destination of a folio and the cost of its move; `None` if it is there.
    fn of(&mut self, folio: FolioLocation, owner: NodeId) -> Option<(NodeId, u64)> {
        let Self { rules, page_bytes, known } = self;
        *known.entry((folio.node, folio.pages, owner)).or_insert_with(|| {
            let to = rules.nearest(owner).filter(|&to| to != folio.node)?;
            let bytes = u64::from(folio.pages).saturating_mul(*page_bytes);
            Some((to, rules.costs.move_ns(bytes, folio.node, to)))
        })
    }
}

fn savings(history: &SampleHistory, choice: &WriterChoice, rules: &TimeRules) -> Savings {
    let mut savings = Savings::default();
    for one in history.periods().flat_map(|(uses, _)| uses) {
        let Some(at) = index_of(&choice.moves, one.page, history.page_bytes()) else { continue };
        let nodes = (one.on, choice.moves[at].to);
        let saved = |user| rules.saved_ns(u128::from(one.ns), user, nodes);
        savings.uses += 1;
        savings.promised_ns = savings.promised_ns.saturating_add(saved(choice.owners[at]));
        savings.saved_ns = savings.saved_ns.saturating_add(saved(one.user));
    }
    let time_ns = sampled_ns(history);
    savings.promised_ns = rules.within_horizon(savings.promised_ns, time_ns);
    savings.saved_ns = rules.within_horizon(savings.saved_ns, time_ns);
    savings
}

/// Returns the index of the folio that holds a page.
fn index_of(moves: &[HotMove], page: u64, page_bytes: u64) -> Option<usize> {
    let at = moves.partition_point(|each| each.address <= page).checked_sub(1)?;
    (page < moves[at].range(page_bytes).end).then_some(at)
}

/// Divides what is saved among the folios, by their costs: of single ones nothing is known.
fn with_savings(mut moves: Vec<HotMove>, saved_ns: i128) -> Vec<HotMove> {
    let costs = moves.iter().map(|each| u128::from(each.cost_ns)).sum::<u128>().max(1);
    for each in &mut moves {
        let part = u128::from(each.cost_ns).saturating_mul(saved_ns.unsigned_abs());
        each.saved_ns = saturating_u64(part.div_ceil(costs));
    }
    moves
}

#[cfg(test)]
mod tests;
