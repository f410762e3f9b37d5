//! Does what was decided: threads first, because that is cheap, then memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodeward_machine::{Error, Machine, Process, Result};
use nodeward_model::{Account, NodeId, Placed, Range, SkipReason};
use nodeward_policy::placement::{
    EntityId, Home, MemoryMove, Nudge, Numbers, Plan, Rules, Verdict,
};

use super::diary::Diary;
use super::ground::Ground;
use super::haul::{Hauled, Load, Road};
use super::looks;
use super::purse::Purse;
use super::report::{Done, News, Short};
use super::roster::{Key, Member, Roster};
use super::settings::BalanceSettings;
use crate::Live;

/// What is on its way goes on until it costs more than it gains by one in so many parts.
const LENIENT_PART: u64 = 4;

/// Memory on its way home, over as many rounds as the budget takes. The decision waits until it is
/// there: what a part of a move brought says nothing about the whole.
pub struct Pending {
    order: MemoryMove,
    left_pages: u64,
    /// Pages below this address were gone through.
    cursor: u64,
    /// Where the pages lie that are meant, in ascending order; all that its process has if `None`.
    ranges: Option<Vec<Range>>,
    /// What became of those that were gone through.
    account: Account,
}

impl Pending {
    /// Memory that sets out; that in these ranges only, if there are any.
    pub fn new(order: MemoryMove, ranges: Option<Vec<Range>>) -> Self {
        let account = Account::default();
        Self { left_pages: order.pages_max, cursor: 0, order, ranges, account }
    }

    /// Whose memory it is.
    pub fn entity(&self) -> EntityId {
        self.order.entity
    }

    /// Whether only some pages are meant, each for itself.
    pub fn is_of_pages(&self) -> bool {
        self.ranges.is_some()
    }

    /// What it gains is judged anew: it runs more than when it was first seen, or longer already.
    fn weigh(&mut self, numbers: &Numbers) {
        if numbers.pages_away > 0 && !self.is_of_pages() {
            let part = u128::from(numbers.gain_ns) * u128::from(self.order.pages_max);
            let gain_ns = part / u128::from(numbers.pages_away);
            self.order.gain_ns = u64::try_from(gain_ns).unwrap_or(u64::MAX);
        }
    }

    /// Whether it is still worth it at this price of a page, which may have been learnt since. To
    /// end it and begin again takes two looks, so it is not given up for next to nothing.
    fn pays(&self, rules: &Rules) -> bool {
        let gain_ns = self.order.gain_ns.saturating_add(self.order.gain_ns / LENIENT_PART);
        gain_ns > rules.move_ns(self.order.pages_max)
    }
}

/// What acting needs.
pub struct Actor<'a> {
    pub machine: &'a dyn Machine,
    pub ground: &'a Ground,
    pub settings: &'a BalanceSettings,
    pub live: &'a Live,
    pub roster: &'a mut Roster,
    pub diary: &'a mut Diary,
    /// What all processes together may still move.
    pub purse: &'a mut Purse,
    /// What is on its way, the oldest first.
    pub pending: &'a mut Vec<Pending>,
    pub round: u64,
    /// What decisions go by, with what moves were measured to cost.
    pub rules: &'a Rules,
    /// When to leave what is not moved yet to the next round, by the machine's clock.
    pub until_ns: u64,
    pub held: BTreeMap<EntityId, Arc<dyn Process>>,
    pub done: BTreeMap<EntityId, Done>,
    pub news: Vec<News>,
}

impl Actor<'_> {
    /// Carries out a plan. Returns those whose memory came to the end of its way, wherever that is.
    pub fn carry_out(&mut self, plan: &Plan) -> BTreeSet<EntityId> {
        if !self.settings.act {
            self.only_tell(plan);
            return BTreeSet::new();
        }
        let before: BTreeSet<_> = self.pending.iter().map(|one| one.order.entity).collect();
        self.enqueue(plan);
        for nudge in &plan.nudges {
            self.attempt(nudge.entity, |actor, key| actor.nudge(key, nudge));
        }
        if !self.pending.is_empty() {
            self.machine.give_way();
        }
        let began: BTreeSet<_> = self.pending.iter().map(|one| one.order.entity).collect();
        let workers = self.movers_for(&began);
        for mut one in std::mem::take(self.pending) {
            let entity = one.order.entity;
            self.done.entry(entity).or_default().pages_planned += one.left_pages;
            let goes_on = self.attempt(entity, |actor, key| actor.bring(key, &mut one, workers))
                == Some(true);
            if goes_on {
                self.done.entry(entity).or_default().pages_pending += one.left_pages;
                self.pending.push(one);
            } else {
                self.end(&one);
            }
        }
        let mut ended = &before | &began;
        self.pending.iter().for_each(|one| _ = ended.remove(&one.order.entity));
        ended
    }

    /// A move came to its end.
    fn end(&mut self, one: &Pending) {
        let entity = one.order.entity;
        self.diary.end(entity, self.live.is_stopped());
        let done = self.done.entry(entity).or_default();
        let outcome = done.outcome.get_or_insert_default();
        outcome.add(one.order.pages_max, &one.account, done.short);
    }

    /// How many threads side by side move memory for these, one after the other.
    fn movers_for(&mut self, entities: &BTreeSet<EntityId>) -> u32 {
        let wanted_ppm =
            |&entity: &EntityId| self.roster.by_number(entity).map(|it| it.wanted_ppm());
        self.ground.movers(entities.iter().filter_map(wanted_ppm).sum())
    }

    fn only_tell(&mut self, plan: &Plan) {
        let placings = std::mem::take(self.pending).into_iter().map(|one| one.order);
        for order in plan.moves.iter().cloned().chain(placings) {
            self.done.entry(order.entity).or_default().pages_planned += order.pages_max;
        }
    }

    /// Puts what was planned behind what is on its way, and drops what belongs elsewhere now.
    fn enqueue(&mut self, plan: &Plan) {
        let new: BTreeSet<_> = plan.moves.iter().map(|order| order.entity).collect();
        let goes_on = |one: &mut Pending| {
            let entity = one.order.entity;
            if let Ok(at) = plan.decisions.binary_search_by_key(&entity, |it| it.entity) {
                if plan.decisions[at].verdict == Verdict::Left {
                    return false;
                }
                one.weigh(&plan.decisions[at].numbers);
            }
            plan.homes.get(&entity).is_some_and(|home| holds(home, one.order.to))
        };
        let is_over = |one: &mut Pending| new.contains(&one.order.entity) || !goes_on(one);
        for one in self.pending.extract_if(.., is_over).collect::<Vec<_>>() {
            self.done.entry(one.order.entity).or_default().short = Some(Short::NotWanted);
            self.end(&one);
        }
        let pending = |order: &MemoryMove| Pending::new(order.clone(), None);
        self.pending.extend(plan.moves.iter().map(pending));
    }

    /// Does something with a process; what goes wrong with it concerns no other.
    fn attempt<T>(
        &mut self,
        entity: EntityId,
        act: impl FnOnce(&mut Self, Key) -> Result<T>,
    ) -> Option<T> {
        let key = self.roster.key(entity)?;
        let member = self.roster.get_mut(key)?;
        if self.live.is_stopped() || member.denied.is_some() {
            return None;
        }
        let error = match act(self, key) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let done = self.done.entry(entity).or_default();
        let is_short = done.pages_planned > done.pages_moved;
        done.short = done.short.or(is_short.then_some(Short::of(&error)));
        let member = self.roster.get_mut(key)?;
        self.news.extend(member.went_wrong(key, error));
        None
    }

    /// Holds a process, if it is still the one that was decided about.
    fn hold(&mut self, entity: EntityId, (pid, started_ticks): Key) -> Result<Arc<dyn Process>> {
        if let Some(process) = self.held.get(&entity) {
            return Ok(Arc::clone(process));
        }
        let process = self.machine.hold(pid)?;
        if process.identity()?.started_ticks != started_ticks {
            return Err(Error::Gone(pid));
        }
        self.held.insert(entity, Arc::clone(&process));
        Ok(process)
    }

    fn nudge(&mut self, key: Key, nudge: &Nudge) -> Result<()> {
        let process = self.hold(nudge.entity, key)?;
        let cpus = self.ground.cpus_of(&nudge.to);
        let placed = match self.settings.pin {
            true => process.pin(nudge.tid, &cpus)?,
            false => process.nudge(nudge.tid, &cpus)?,
        };
        let done = self.done.entry(nudge.entity).or_default();
        *match placed {
            Placed::Done => &mut done.threads_placed,
            Placed::NotAllowed => &mut done.threads_not_allowed,
            Placed::Changed => &mut done.threads_changed,
            Placed::Asleep => &mut done.threads_asleep,
            Placed::Gone => &mut done.threads_gone,
        } += 1;
        let member = self.roster.get_mut(key);
        if self.settings.pin
            && placed == Placed::Done
            && let Some(member) = member
            && let Some(now) = &member.now
            && let Some(thread) = now.threads.iter().find(|thread| thread.tid == nudge.tid)
        {
            member.pins.enter(thread, &cpus);
        }
        Ok(())
    }

    /// Brings some memory home; whether there is more to bring.
    fn bring(&mut self, key: Key, one: &mut Pending, workers: u32) -> Result<bool> {
        let entity = one.order.entity;
        let page_bytes = self.machine.page_bytes();
        if !one.pays(self.rules) {
            self.done.entry(entity).or_default().short = Some(Short::TooDear);
            return Ok(false);
        }
        let Some(member) = self.roster.get_mut(key) else { return Ok(false) };
        let may_pages = self.purse.bytes().min(member.purse.bytes()) / page_bytes;
        let bound = member.sight.as_ref().map(|sight| sight.bound.ranges.clone());
        let known = member.sight.as_ref().map(|sight| &sight.pages);
        let on_way: u64 = one.order.from.iter().filter_map(|from| known?.get(&from)).sum();
        if self.rules.forbid_moves(self.ground.stalled_ppm()) {
            self.done.entry(entity).or_default().short = Some(Short::Stalled);
            return Ok(true);
        }
        if may_pages == 0 || self.machine.now_ns() >= self.until_ns {
            self.done.entry(entity).or_default().short = Some(Short::Budget);
            return Ok(true);
        }
        let process = self.hold(entity, key)?;
        let (free, _) = looks::parts(process.mappings()?, &bound.unwrap_or_default());
        let free: Vec<Range> = free.into_iter().map(|mapping| mapping.range).collect();
        let ranges = match &one.ranges {
            Some(ranges) => common(ranges, &free),
            None => free,
        };
        // Where all that is away is to come, samples told how much that is. Where there is room for
        // a part, it must be a part.
        let is_all = one.order.pages_max >= on_way;
        let load = Load {
            process: &process,
            ranges: &ranges,
            from: &one.order.from,
            to: one.order.to,
            expected_pages: one.left_pages,
            pages_max: if is_all { may_pages } else { may_pages.min(one.left_pages) },
            is_all,
            stall_ns: self.settings.stall_ns,
            rules: self.rules,
            workers,
        };
        let journal = self.diary.journal(self.machine, &*process, &one.order, self.round)?;
        let Self { machine, ground, live, until_ns, .. } = *self;
        let hauled = Road { machine, ground, live, journal, until_ns }.haul(&load, one.cursor);
        one.left_pages -= hauled.account.moved.min(one.left_pages);
        one.cursor = hauled.cursor;
        one.account.add(&hauled.account);
        Ok(self.enter(key, one, hauled))
    }

    /// Notes what a haul came to; whether there is more.
    fn enter(&mut self, key: Key, one: &Pending, hauled: Hauled) -> bool {
        let Hauled { account, short, error, .. } = hauled;
        let bytes = account.moved * self.machine.page_bytes();
        self.purse.spend(bytes);
        self.diary.enter(one.order.entity, &account);
        if let Some(member) = self.roster.get_mut(key) {
            member.purse.spend(bytes);
            member.note_stuck(one);
            if let Some(error) = error {
                self.news.extend(member.failed_at(key, error));
            }
        }
        let done = self.done.entry(one.order.entity).or_default();
        done.pages_moved += account.moved;
        for (&reason, &pages) in &account.skipped {
            *done.pages_skipped.entry(reason).or_default() += pages;
        }
        done.short = done.short.or(short);
        short == Some(Short::Budget)
    }
}

impl Short {
    fn of(error: &Error) -> Self {
        if error.is_gone() { Self::Gone } else { Self::Failed }
    }
}

impl Member {
    /// Notes that something could not be done; what is to be told of it, once.
    pub fn went_wrong(&mut self, (pid, _): Key, error: Error) -> Option<News> {
        match error {
            Error::Gone(_) => None,
            Error::Denied { need, .. } => {
                let is_new = self.denied.replace(need.clone()).is_none();
                is_new.then(|| News::Denied { pids: vec![pid], need })
            }
            error => self.failed_at((pid, 0), error.to_string()),
        }
    }

    fn failed_at(&mut self, (pid, _): Key, error: String) -> Option<News> {
        let is_new = !std::mem::replace(&mut self.failed, true);
        is_new.then_some(News::Failed { pid, error })
    }

    /// What stayed where it is, on all of its way so far, counts as fixed.
    fn note_stuck(&mut self, one: &Pending) {
        let mut left = stuck(&one.account.skipped);
        if left > 0 {
            self.stuck_ago_ns = 0;
        }
        let pages = self.sight.as_ref().map(|sight| sight.pages.clone()).unwrap_or_default();
        for node in one.order.from.iter() {
            let on: u64 = pages.get(&node).copied().unwrap_or(0);
            let stuck = left.min(on);
            let known = self.stuck.entry(node).or_default();
            *known = stuck.max(*known);
            left -= stuck;
        }
    }
}

/// Pages that will not move next time either.
fn stuck(skipped: &BTreeMap<SkipReason, u64>) -> u64 {
    let lasts = |reason: &SkipReason| {
        !matches!(
            reason,
            SkipReason::NotPresent
                | SkipReason::Swapped
                | SkipReason::NoMemory
                | SkipReason::Interrupted
                | SkipReason::Gone
        )
    };
    skipped.iter().filter(|(reason, _)| lasts(reason)).map(|(_, pages)| pages).sum()
}

/// What of some ranges lies in others; both ascend and do not overlap.
fn common(ranges: &[Range], others: &[Range]) -> Vec<Range> {
    let parts = |range: &Range| {
        let from = others.partition_point(|other| other.end <= range.start);
        let range = *range;
        others[from..].iter().map_while(move |other| other.and(range))
    };
    ranges.iter().flat_map(parts).collect()
}

/// Pages that are away from where they belong.
pub fn away(pages: &BTreeMap<NodeId, u64>, home: &Home) -> u64 {
    pages.iter().filter(|&(&node, _)| !holds(home, node)).map(|(_, pages)| pages).sum()
}

/// Whether memory belongs on a node.
fn holds(home: &Home, node: NodeId) -> bool {
    match home {
        Home::Node(home) => *home == node,
        Home::Spread(nodes) | Home::Interleave { memory: nodes, .. } => nodes.contains(node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is common to two lists of ranges is cut at the ends of both.
    #[test]
    fn ranges_are_cut_by_others() {
        let ranges = |list: &[(u64, u64)]| -> Vec<Range> {
            list.iter().map(|&(start, end)| Range::new(start, end)).collect()
        };
        let folios = ranges(&[(0, 10), (10, 20), (30, 50), (60, 70)]);
        let free = ranges(&[(5, 12), (32, 34), (36, 40), (45, 65), (80, 90)]);
        let both = [(5, 10), (10, 12), (32, 34), (36, 40), (45, 50), (60, 65)];
        assert_eq!(common(&folios, &free), ranges(&both));
        assert_eq!(common(&free, &[]), []);
    }
}
