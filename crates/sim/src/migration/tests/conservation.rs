//! No page is lost, whatever happens in the middle of a move.

use nodeward_model::SkipReason;
use nodeward_policy::sampling::SplitMix64;

use super::*;
use crate::memory::{AddressSpace, Folio, PageByte};
use crate::world::World;

/// Goal: a page that is freed in the middle of a move is lost to it, though its process maps new
/// pages there that another mover takes out of sight: those belong to the other mover.
#[test]
fn pages_that_were_freed_meanwhile_are_not_landed() {
    let mut world = world(machine(3, 2));
    let space = process(&mut world, 0, 64, false);
    let (_, first) = start_move(&mut world, job(space, 64, 1));
    while world.spaces[space].count_all(3)[4] < 64 {
        world.run_until(world.now_ns() + 1_000);
    }
    let is_there = |world: &World| world.spaces[space].regions[0].page(63).node().is_some();
    while is_there(&world) {
        world.mm().free_pages(5, space, 0, 0..64);
    }
    world.spaces[space].regions[0].set(0..64, PageByte::on(2));
    world.memory.zones[2].free_pages -= 64;
    let (_, second) = start_move(&mut world, MoveJob { to: 0, ..job(space, 64, 1) });
    while first.lock().unwrap().is_none() || second.lock().unwrap().is_none() {
        check_pages(&world);
        world.run_until(world.now_ns() + 1_000);
    }
    let moved = |end: &FinishedMoveCell| end.lock().unwrap().clone().unwrap().account.clone();
    assert_eq!(moved(&first).skipped_for(SkipReason::NotPresent), 64);
    assert_eq!(moved(&second).moved, 64);
    assert_eq!(world.spaces[space].count_all(3)[..3], [64, 0, 0]);
}

/// Goal: whatever happens in the middle, no page is lost or in two places, and each selected page
/// is in the account once. Random faults; the seed is in the message.
#[test]
fn no_page_is_lost() {
    for seed in 0..60 {
        println!("seed {seed}");
        random_move(seed);
    }
}

fn random_move(seed: u64) {
    let mut chance = SplitMix64::new(seed);
    let mut draw = move |below: u64| chance.next_u64() % below;
    let mut machine = machine(3, 2);
    machine.params.zone_hold_ps = 40_000;
    machine.params.batch_pages = [1, 7, 64, 512][draw(4) as usize];
    machine.params.copiers = 1 + draw(3);
    machine.params.dma_channels = draw(2) * draw(3);
    machine.params.huge_migration = draw(2);
    let mut world = world(machine);
    let hog = world.memory.zones[1].free_pages - draw(8000);
    process(&mut world, 1, hog, false);
    let mut movers = Vec::new();
    let mut spaces = Vec::new();
    for _ in 0..2 {
        let huge = draw(2) == 1;
        let pages = 512 * (1 + draw(6));
        let space = process(&mut world, 0, pages, huge);
        let pinned: Vec<_> = (0..draw(20)).map(|_| draw(pages)).collect();
        world.spaces[space].regions[0].pinned.extend(pinned);
        spin(&mut world, space, draw(6) as usize);
        // Two movers compete for the same pages.
        for to in [1, 2] {
            let job = MoveJob { to, ..job(space, pages, if huge { 512 } else { 1 }) };
            let selected: u64 = job.folios.iter().map(Folio::len).sum();
            movers.push((start_move(&mut world, job).1, selected));
        }
        spaces.push(space);
    }
    for _ in 0..40 {
        let until = world.now_ns() + draw(400_000);
        world.run_until(until);
        check_pages(&world);
        let space = spaces[draw(2) as usize];
        let pages = world.spaces[space].regions[0].pages; // none after the end of the process
        let first = draw(pages.max(1));
        match draw(12) {
            0 => drop(world.mm().free_pages(0, space, 0, first..(first + draw(600)).min(pages))),
            1 => drop(world.make_lazy(0, space)),
            2 => world.kill_process(space),
            _ => {}
        }
        check_pages(&world);
    }
    world.run_until(world.now_ns() + 2_000_000_000);
    check_pages(&world);
    for (end, selected) in movers {
        let moved = end.lock().unwrap().clone().expect("it has ended");
        assert_eq!(moved.account.selected(), selected, "{moved:?}");
    }
    assert!((0..3).all(|node| world.memory.copy_targets[node] == 0));
    let flying = |space: &AddressSpace| space.count_all(3)[4];
    assert_eq!(world.spaces.iter().map(flying).sum::<u64>(), 0);
}
