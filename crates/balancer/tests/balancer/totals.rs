//! Sums over rounds: they are those of what the rounds told, each counted once.

use nodeward_balancer::{BalanceSettings, MoveSubject};
use nodeward_model::NodeId;

use crate::stage::{PAGES, balancer, fake_process, moved, rounds, with};

/// Goal: a process with a tenth of its memory on node 0 and the rest on node 1 comes home. The move
/// is counted once, its pages by the nodes that they left and came to; rounds, samples and
/// decisions are as many as the reports have.
#[test]
fn a_move_is_counted_once() {
    let fake = with(fake_process([PAGES / 10, PAGES], 4, "0-7"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 20);
    let totals = &reports.last().unwrap().totals;
    let moves = &totals.moves[&MoveSubject::Process];
    assert_eq!(moved(&reports), PAGES / 10);
    assert_eq!(moves.flows, [((NodeId(0), NodeId(1)), PAGES / 10)].into());
    assert_eq!((totals.moves.len(), moves.ended), (1, 1));
    assert!(moves.holds.runs() > 0, "the balancer has a stall budget");
    assert!(moves.stayed.is_empty(), "{totals:?}");
    assert_eq!(totals.rounds + totals.fast_rounds, 20);
    assert_eq!(totals.samples, reports.iter().map(|report| report.looked).sum::<u64>());
    let rows = reports.iter().flat_map(|report| &report.processes);
    let changed = rows.filter(|row| row.changed).count() as u64;
    assert_eq!(totals.changes.values().sum::<u64>(), changed);
    assert!(totals.changes.contains_key("settles"), "{totals:?}");
}

/// Goal: threads are counted by what came of them, also in fast rounds: a thread on node 0 is
/// brought to its memory on node 1.
#[test]
fn nudges_are_counted() {
    let fake = with(fake_process([0, PAGES], 0, "0-7"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 10);
    let nudged: u64 = reports.iter().map(|report| report.nudged).sum();
    assert!(nudged > 0);
    assert_eq!(reports.last().unwrap().totals.nudges["done"], nudged);
}

/// Goal: pages that cannot move are counted with their reason, and the move as one that fell short.
#[test]
fn what_stays_is_counted() {
    let mut process = fake_process([PAGES, 0], 4, "4-7");
    process.pinned = process.pages.keys().copied().take(100).collect();
    let fake = with(process);
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 10);
    let totals = &reports.last().unwrap().totals;
    let stayed: u64 = totals.moves[&MoveSubject::Process].stayed.values().sum();
    assert!(stayed >= 100, "{totals:?}");
    assert_eq!(totals.short.get("refused"), Some(&1), "{totals:?}");
}
