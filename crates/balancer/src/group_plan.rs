//! From what is decided about groups to what is done with the parts of processes.

use nodeward_policy::placement::{Decision, EntityId, MemoryMove, Plan};

use super::group_part::GroupPart;
use super::group_table::GroupTable;
use super::process_table::{ProcessState, ProcessTable};
use super::snapshot::Excluded;

/// Divides what a plan says of groups among their parts, those of processes that must be left alone
/// left out. Returns the decisions about groups, in the order of their numbers.
pub fn divide(
    plan: &mut Plan,
    groups: &GroupTable,
    (processes, excluded): (&ProcessTable, &Excluded),
) -> Vec<Decision> {
    let parts = || {
        let free = processes.iter().filter(|(_, process)| excluded.of(process).is_none());
        free.flat_map(|(_, process)| process.parts.iter().map(move |part| (process, part)))
    };
    let of_group = |entity: EntityId| groups.get(entity).is_some();
    let (decisions, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut plan.decisions).into_iter().partition(|it| of_group(it.entity));
    plan.decisions = others;
    for (_, part) in parts() {
        if let Some(home) = plan.homes.get(&part.group).cloned() {
            plan.homes.insert(part.entity, home);
        }
        for nudge in plan.nudges.iter_mut().filter(|it| it.entity == part.group) {
            if part.threads.contains(&nudge.tid) {
                nudge.entity = part.entity;
            }
        }
        if let Some(decision) = decisions.iter().find(|it| it.entity == part.group) {
            plan.decisions.push(Decision {
                entity: part.entity,
                counts_wanted: false,
                ..decision.clone()
            });
        }
    }
    plan.decisions.sort_by_key(|decision| decision.entity);
    let moves = std::mem::take(&mut plan.moves);
    let divided = |one: MemoryMove| match of_group(one.entity) {
        true => move_by_part(&one, parts().filter(|(_, part)| part.group == one.entity)),
        false => vec![one],
    };
    plan.moves = moves.into_iter().flat_map(divided).collect();
    decisions
}

/// The moves of parts of which a move of a group consists: of each as many pages as it has of all
/// that the group has there.
fn move_by_part<'a>(
    order: &MemoryMove,
    parts: impl Iterator<Item = (&'a ProcessState, &'a GroupPart)>,
) -> Vec<MemoryMove> {
    let there = |(process, part): (&ProcessState, &GroupPart)| {
        let fixed = process.fixed_pages(part.entity);
        let pages = process.sample.as_ref().map(|sample| sample.pages_of(part.entity));
        let on = |node| {
            let all = pages.and_then(|pages| pages.get(&node)).copied().unwrap_or(0);
            all.saturating_sub(fixed.get(&node).copied().unwrap_or(0))
        };
        (part.entity, order.from.iter().map(on).sum::<u64>())
    };
    let there: Vec<(EntityId, u64)> = parts.map(there).collect();
    let all: u64 = there.iter().map(|(_, pages)| pages).sum();
    let share = |amount: u64, pages: u64| {
        let share = u128::from(amount) * u128::from(pages) / u128::from(all.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    let part = |(entity, pages): (EntityId, u64)| MemoryMove {
        entity,
        pages_max: share(order.pages_max, pages),
        gain_ns: share(order.gain_ns, pages),
        cost_ns: share(order.cost_ns, pages),
        ..order.clone()
    };
    there.into_iter().map(part).filter(|one| one.pages_max > 0).collect()
}
