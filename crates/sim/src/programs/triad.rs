//! A program that streams through memory from end to end, repeatedly, for a number of passes or
//! without end.

use std::ops::Range;

use nodeward_scenario::{AccessPattern, SharedLines};

use super::fill::{Fill, granule_range_of, line_count, thread_pages};
use crate::arithmetic::mul_div;
use crate::cpu::{LineAccess, Op};
use crate::ids::{SpaceId, TaskId};
use crate::world::{TaskProgram, World};

/// One thread, with its part of the memory.
#[derive(Debug)]
pub struct Triad {
    fill: Fill,
    /// What a pass consists of: its own part first.
    pass: Vec<LineAccess>,
    /// The index of the next piece of the pass.
    next_piece: usize,
    /// Passes that it has done, and those after which it ends; 0 for no end.
    done: u64,
    passes: u64,
}

impl Triad {
    /// Creates a thread with the places of its own part and of the one that it shares with others.
    /// The lines that it shares, fewer than 1000 of 1000, are only read. It ends after `passes`;
    /// after none if they are 0.
    pub fn new(
        world: &World,
        space: SpaceId,
        [place, shared_place]: [(u32, u32); 2],
        access: AccessPattern,
        (shared, passes): (SharedLines, u64),
    ) -> Self {
        let fill = Fill::new(world, space, place);
        let [own, all] = [fill.pages(), thread_pages(world, space, shared_place)];
        let own_lines = lines_of(world, &own);
        let own_milli = 1000 - u64::from(shared.all_milli()).min(999);
        let lines = |milli: u32| mul_div(own_lines, milli.into(), own_milli);
        let others = [all.start..own.start, own.end..all.end];
        let others: Vec<_> = others.into_iter().filter(|pages| !pages.is_empty()).collect();
        let reads = AccessPattern { writes_milli: 0, ..access };
        let part = |pages: &Range<u64>| granule_range_of(world, space, pages.clone());
        let mut pass = vec![LineAccess {
            range: part(&own),
            lines: own_lines,
            pattern: access,
            reused: false,
        }];
        let others_lines: u64 = others.iter().map(|pages| lines_of(world, pages)).sum();
        for pages in &others {
            let lines = mul_div(lines(shared.in_order_milli), lines_of(world, pages), others_lines);
            pass.push(LineAccess { range: part(pages), lines, pattern: reads, reused: false });
        }
        let random = lines(shared.random_milli);
        pass.push(LineAccess { range: part(&all), lines: random, pattern: reads, reused: true });
        pass.retain(|piece| piece.lines > 0);
        Self { fill, pass, next_piece: 0, done: 0, passes }
    }
}

fn lines_of(world: &World, pages: &Range<u64>) -> u64 {
    line_count(world, (pages.end - pages.start) * world.machine.params.page_bytes)
}

impl TaskProgram for Triad {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        if let Some(op) = self.fill.next(world, task) {
            return op;
        }
        if self.next_piece == self.pass.len() {
            (self.next_piece, self.done) = (0, self.done + 1);
        }
        if self.passes > 0 && self.done == self.passes {
            return Op::Exit;
        }
        self.next_piece += 1;
        Op::Access(self.pass[self.next_piece - 1])
    }

    fn populate(&mut self, world: &mut World, task: TaskId) {
        self.fill.populate(world, task);
    }
}
