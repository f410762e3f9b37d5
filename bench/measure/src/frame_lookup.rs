//! Finds the pages of a process by a list of physical addresses: the two loops of the 2004 proposal
//! and the bitmap over frames, on the same list and the same page table.
//!
//! The proposal walked the page table and compared each entry with the whole list; walking the
//! table once for each address instead made migration 4 to 5 times slower. The page table here is
//! an array in memory, so that walking costs the same for all three.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use nodeward_model::FrameSet;
use serde_json::{Value, json};

use crate::args::LoopsOptions;
use crate::numbers::{all_rounded, median, ms, ratios, rounded};
use crate::shuffle::shuffled;

/// Ratio of the machine's frames to those that the process maps.
const FRAMES_PER_PAGE: u64 = 8;

/// Looks up the frames of the same pages in three ways, in alternation.
pub fn measure(options: &LoopsOptions) -> Result<Value> {
    let frames = options.pages as u64 * FRAMES_PER_PAGE;
    let table: Vec<u64> = shuffled(frames).take(options.pages).collect();
    let step = (options.pages / options.addresses.max(1)).max(1);
    let list: Vec<u64> = table.iter().step_by(step).take(options.addresses).copied().collect();
    let mut took: [Vec<Duration>; 3] = Default::default();
    for _ in 0..options.runs {
        let found = [
            timed(&mut took[0], || walk_then_list(&table, &list)),
            timed(&mut took[1], || list_then_walk(&table, &list)),
            timed(&mut took[2], || bitmap(&table, &list, frames)),
        ];
        ensure!(found.iter().all(|count| *count == list.len()), "found {found:?}");
    }
    let [walk_first, list_first, ours] = &took;
    let ratio = rounded(median(&ratios(walk_first, ours)));
    Ok(json!({
        "measured": ratio,
        "pages": options.pages,
        "addresses": list.len(),
        "list_first_to_walk_first": rounded(median(&ratios(list_first, walk_first))),
        "walk_first_ms": all_rounded(&ms(walk_first)),
        "list_first_ms": all_rounded(&ms(list_first)),
        "bitmap_ms": all_rounded(&ms(ours)),
    }))
}

fn timed(took: &mut Vec<Duration>, find: impl FnOnce() -> usize) -> usize {
    let begin = Instant::now();
    let found = black_box(find());
    took.push(begin.elapsed());
    found
}

/// The fast loop of 2004: the page table outside, the list inside.
fn walk_then_list(table: &[u64], list: &[u64]) -> usize {
    table.iter().filter(|frame| black_box(list).contains(frame)).count()
}

/// The slow one: for each address the page table, whose entries no cache keeps.
fn list_then_walk(table: &[u64], list: &[u64]) -> usize {
    list.iter().filter(|frame| black_box(table).contains(frame)).count()
}

/// Our method: the list becomes a bit for each frame, and the walk tests bits.
fn bitmap(table: &[u64], list: &[u64], frames: u64) -> usize {
    let mut set = FrameSet::new(frames);
    list.iter().for_each(|&frame| _ = set.insert(frame));
    table.iter().filter(|&&frame| set.remove(frame)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the three find the same pages; frames that are not in the table are not found.
    #[test]
    fn all_find_the_same() {
        let table = [5, 9, 2, 7];
        let list = [9, 7, 100];
        assert_eq!(walk_then_list(&table, &list), 2);
        assert_eq!(list_then_walk(&table, &list), 2);
        assert_eq!(bitmap(&table, &list, 101), 2);
    }
}
