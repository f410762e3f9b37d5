//! Formats counts as lines for people.

use std::fmt::Write;

use nodeward_lab_counts::{AccessCount, CounterSnapshot, FrameCount, SlotCounts};

/// Formats a line for each slot and pair of nodes with counts.
pub fn of_slots(counts: &CounterSnapshot) -> String {
    let mut text =
        format!("{:>4} {:>5} {:>5} {:>14} {:>14}\n", "slot", "from", "to", "accesses", "misses");
    for slot in &counts.slots {
        lines(&mut text, counts, slot);
    }
    let held: u64 = counts.held_ns.iter().sum();
    if held > 0 {
        _ = writeln!(text, "held up for {:.3} s", held as f64 / 1e9);
    }
    text
}

fn lines(text: &mut String, counts: &CounterSnapshot, slot: &SlotCounts) {
    for (from, row) in counts.node_matrix(slot).iter().enumerate() {
        for (to, AccessCount { accesses, misses }) in
            row.iter().enumerate().filter(|(_, c)| c.accesses > 0)
        {
            let number = slot.slot;
            _ = writeln!(text, "{number:>4} {from:>5} {to:>5} {accesses:>14} {misses:>14}");
        }
    }
    if let Some(permille) = counts.locality(slot).misses_permille() {
        let (whole, tenth) = (permille / 10, permille % 10);
        _ = writeln!(text, "{:>4} {whole}.{tenth} % of misses local", slot.slot);
    }
}

/// Formats a line for each frame and node from which it was accessed.
pub fn of_frames(frames: &[FrameCount]) -> String {
    let mut text = format!(
        "{:>10} {:>5} {:>5} {:>14} {:>14}\n",
        "frame", "node", "from", "accesses", "misses"
    );
    for FrameCount { frame, home, by } in frames {
        for (from, AccessCount { accesses, misses }) in
            by.iter().enumerate().filter(|(_, c)| c.accesses > 0)
        {
            _ = writeln!(text, "{frame:>10x} {home:>5} {from:>5} {accesses:>14} {misses:>14}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(accesses: u64, misses: u64) -> AccessCount {
        AccessCount { accesses, misses }
    }

    /// Goal: empty rows are left out, and the share is of misses.
    #[test]
    fn counts_are_lines() {
        let zero = AccessCount::default();
        let cells = vec![vec![cell(5, 3), cell(7, 1), zero], vec![zero; 3]];
        let slots = vec![SlotCounts { slot: 9, space: None, cells }];
        let counts = CounterSnapshot {
            counting: true,
            cpu_nodes: vec![0, 1],
            held_ns: vec![0, 2_000_000],
            slots,
        };
        assert_eq!(
            of_slots(&counts),
            "slot  from    to       accesses         misses\n\
             \u{20}  9     0     0              5              3\n\
             \u{20}  9     0     1              7              1\n\
             \u{20}  9 75.0 % of misses local\n\
             held up for 0.002 s\n"
        );
        let frames = [FrameCount { frame: 0xab, home: 1, by: vec![zero, cell(2, 2)] }];
        assert_eq!(
            of_frames(&frames),
            "     frame  node  from       accesses         misses\n\
             \u{20}       ab     1     1              2              2\n"
        );
    }
}
