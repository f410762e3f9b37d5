//! Does what was decided: threads first, because that is cheap, then memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Error, Machine, Process, Result};
use nodeward_model::{NodeId, Placed, Range, SkipReason};
use nodeward_policy::home::{EntityId, MemoryMove, Nudge, Plan};

use super::diary::Diary;
use super::ground::Ground;
use super::haul::{Hauled, Load, Road};
use super::looks;
use super::purse::Purse;
use super::report::{Done, News, Short};
use super::roster::{Key, Member, Roster};
use super::settings::BalanceSettings;
use crate::Live;

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
    pub round: u64,
    pub keys: BTreeMap<EntityId, Key>,
    pub held: BTreeMap<EntityId, Arc<dyn Process>>,
    pub done: BTreeMap<EntityId, Done>,
    pub news: Vec<News>,
}

impl Actor<'_> {
    /// Carries out a plan.
    pub fn carry_out(&mut self, plan: &Plan) {
        for order in &plan.moves {
            let done = self.done.entry(order.entity).or_default();
            done.pages_planned += order.pages_max;
        }
        if !self.settings.act {
            return;
        }
        for nudge in &plan.nudges {
            self.attempt(nudge.entity, |actor| actor.nudge(nudge));
        }
        if !plan.moves.is_empty() {
            self.machine.give_way();
        }
        for order in &plan.moves {
            self.attempt(order.entity, |actor| actor.bring(order));
        }
    }

    /// Does something with a process; what goes wrong with it concerns no other.
    fn attempt(&mut self, entity: EntityId, act: impl FnOnce(&mut Self) -> Result<()>) {
        let Some(&key) = self.keys.get(&entity) else { return };
        let is_denied = |member: &mut Member| member.denied.is_some();
        if self.live.is_stopped() || self.roster.get_mut(key).is_none_or(is_denied) {
            return;
        }
        let Err(error) = act(self) else { return };
        let done = self.done.entry(entity).or_default();
        let planned = done.pages_planned > done.pages_moved;
        done.short = done.short.or(planned.then_some(Short::of(&error)));
        if let Some(member) = self.roster.get_mut(key) {
            self.news.extend(member.went_wrong(key, error));
        }
    }

    /// Holds a process, if it is still the one that was decided about.
    fn hold(&mut self, entity: EntityId) -> Result<Arc<dyn Process>> {
        if let Some(process) = self.held.get(&entity) {
            return Ok(Arc::clone(process));
        }
        let (pid, started_ticks) = self.keys[&entity];
        let process = self.machine.hold(pid)?;
        if process.identity()?.started_ticks != started_ticks {
            return Err(Error::Gone(pid));
        }
        self.held.insert(entity, Arc::clone(&process));
        Ok(process)
    }

    fn nudge(&mut self, nudge: &Nudge) -> Result<()> {
        let process = self.hold(nudge.entity)?;
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
            Placed::Gone => &mut done.threads_gone,
        } += 1;
        let member = self.keys.get(&nudge.entity).and_then(|&key| self.roster.get_mut(key));
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

    fn bring(&mut self, order: &MemoryMove) -> Result<()> {
        let page_bytes = self.machine.page_bytes();
        let key = self.keys[&order.entity];
        let Some(member) = self.roster.get_mut(key) else { return Ok(()) };
        let bytes = self.purse.bytes().min(member.purse.bytes());
        let pages_max = order.pages_max.min(bytes / page_bytes);
        let cursor = member.cursor;
        let bound = member.sight.as_ref().map(|sight| sight.bound.ranges.clone());
        if pages_max == 0 {
            self.done.entry(order.entity).or_default().short = Some(Short::Budget);
            return Ok(());
        }
        let process = self.hold(order.entity)?;
        let (free, _) = looks::parts(process.mappings()?, &bound.unwrap_or_default());
        let ranges: Vec<Range> = free.into_iter().map(|mapping| mapping.range).collect();
        let load = Load {
            process: &process,
            ranges: &ranges,
            from: &order.from,
            to: order.to,
            pages_max,
            stall_ns: self.settings.stall_ns,
        };
        let journal = self.diary.journal(self.machine, &*process, order, self.round)?;
        let (machine, ground, live) = (self.machine, self.ground, self.live);
        let hauled = Road { machine, ground, live, journal }.haul(&load, cursor);
        self.enter(order, pages_max, hauled);
        Ok(())
    }

    /// Notes what a haul came to.
    fn enter(&mut self, order: &MemoryMove, allowed_pages: u64, hauled: Hauled) {
        let Hauled { account, short, error, cursor } = hauled;
        let key = self.keys[&order.entity];
        let bytes = account.moved * self.machine.page_bytes();
        self.purse.spend(bytes);
        self.diary.enter(order.entity, &account);
        let is_cut = allowed_pages < order.pages_max;
        let short = short.or(is_cut.then_some(Short::Budget));
        if short != Some(Short::Budget) {
            self.diary.end(order.entity, short == Some(Short::Interrupted));
        }
        if let Some(member) = self.roster.get_mut(key) {
            member.purse.spend(bytes);
            member.cursor = cursor;
            member.note_stuck(order, &account.skipped);
            if let Some(error) = error {
                self.news.extend(member.failed_at(key, error));
            }
        }
        let done = self.done.entry(order.entity).or_default();
        done.pages_moved += account.moved;
        for (&reason, &pages) in &account.skipped {
            *done.pages_skipped.entry(reason).or_default() += pages;
        }
        done.short = done.short.or(short);
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

    /// Pages that will not move next time either stay where they are: they count as fixed.
    fn note_stuck(&mut self, order: &MemoryMove, skipped: &BTreeMap<SkipReason, u64>) {
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
        let mut left: u64 =
            skipped.iter().filter(|(reason, _)| lasts(reason)).map(|(_, pages)| pages).sum();
        let pages = self.sight.as_ref().map(|sight| sight.pages.clone()).unwrap_or_default();
        for node in order.from.iter() {
            let on: u64 = pages.get(&node).copied().unwrap_or(0);
            let stuck = left.min(on);
            let known = self.stuck.entry(node).or_default();
            *known = stuck.max(*known);
            left -= stuck;
        }
    }
}

/// Pages that are away from where they belong.
pub fn away(pages: &BTreeMap<NodeId, u64>, home: &nodeward_policy::home::Home) -> u64 {
    use nodeward_policy::home::Home;
    let belongs = |node: &NodeId| match home {
        Home::Node(home) => home == node,
        Home::Spread(nodes) => nodes.contains(*node),
        Home::Interleave { memory, .. } => memory.contains(*node),
    };
    pages.iter().filter(|(node, _)| !belongs(node)).map(|(_, pages)| pages).sum()
}
