//! Checks that no page is lost or created, no node holds more pages than it has, and every visible
//! page holds what was written to it.

use nodeward_sim::{Census, NodeCensus};

use super::{Checker, CheckerResult, ensure};

/// Checks a whole census.
///
/// # Errors
/// The first node or page that violates a rule.
pub fn check_census(census: &Census) -> CheckerResult {
    census.nodes.iter().try_for_each(check_node)?;
    check_contents(census)
}

/// Checks that the free, listed, returning, held and used pages of a node add up to all its pages.
fn check_node(node: &NodeCensus) -> CheckerResult {
    let NodeCensus {
        free,
        in_lists,
        being_freed: on_the_way,
        copy_targets: held,
        kernel_pages: taken,
        in_use,
        ..
    } = *node;
    let (id, capacity) = (node.node, node.capacity);
    let sum = || {
        format!(
            "node {id} has {capacity} pages, but {free} are free, {in_lists} in lists, \
             {on_the_way} on the way there, {held} held, {taken} taken and {in_use} in use"
        )
    };
    let all = free + in_lists + on_the_way + held + taken + in_use;
    ensure(all <= capacity, Checker::Capacity, sum)?;
    ensure(all >= capacity, Checker::Pages, sum)?;
    let kept = [
        ("in lists", node.in_lists_by_counter, in_lists),
        ("in use", node.in_use_by_counter, in_use),
        ("held for copies", held, node.copy_targets_counted.unwrap_or(held)),
        ("in buffers", taken, node.in_buffers),
    ];
    kept.into_iter().try_for_each(|(what, by_sum, counted)| {
        let differs = || format!("node {id} has {counted} pages {what}, but {by_sum} in its sum");
        ensure(by_sum == counted, Checker::Pages, differs)
    })
}

fn check_contents(census: &Census) -> CheckerResult {
    let what = || {
        let count = census.stale_folios;
        let first = census.stale.first();
        let named = first.map(|page| {
            let (pid, address) = (page.pid, page.address);
            format!(": of process {pid} at {address:#x}, which has what {} left", page.holds)
        });
        format!("{count} folios lost what was written to them{}", named.unwrap_or_default())
    };
    ensure(census.stale_folios == 0, Checker::Contents, what)
}

/// Checks that moves and faults report no more pages as moved to another node than became visible
/// there, and exactly as many once all moves have ended.
///
/// # Errors
/// Both numbers.
pub fn check_mapped_copies(landed: u64, told: u64, all_ended: bool) -> CheckerResult {
    let what = || format!("{landed} pages came into sight on another node, and {told} are told of");
    let agrees = if all_ended { told == landed } else { told <= landed };
    ensure(agrees, Checker::Account, what)
}

#[cfg(test)]
mod tests {
    use nodeward_model::{NodeId, Pid};
    use nodeward_sim::StalePage;

    use super::*;

    /// A node of 100 pages.
    fn counted() -> Census {
        let node = NodeCensus {
            node: NodeId(0),
            capacity: 100,
            free: 50,
            in_lists: 20,
            in_lists_by_counter: 20,
            being_freed: 4,
            copy_targets: 5,
            copy_targets_counted: Some(5),
            kernel_pages: 1,
            in_buffers: 1,
            in_use: 20,
            in_use_by_counter: 20,
        };
        let (processes, stale) = (Vec::new(), Vec::new());
        Census {
            at_ns: 0,
            nodes: vec![node],
            processes,
            mapped_copies: None,
            stale,
            stale_folios: 0,
        }
    }

    fn found(harm: impl FnOnce(&mut Census)) -> Option<Checker> {
        let mut counted = counted();
        harm(&mut counted);
        check_census(&counted).err().map(|(checker, _)| checker)
    }

    /// Goal: 50 + 20 + 4 + 5 + 1 + 20 = 100 pages pass; one less is lost, one more is too many, and
    /// sums that disagree with the counts are detected.
    #[test]
    fn pages_that_are_lost_or_made_are_found() {
        assert_eq!(found(|_| {}), None);
        assert_eq!(found(|census| census.nodes[0].free -= 1), Some(Checker::Pages));
        assert_eq!(found(|census| census.nodes[0].in_use += 1), Some(Checker::Capacity));
        assert_eq!(found(|census| census.nodes[0].in_use_by_counter += 1), Some(Checker::Pages));
        assert_eq!(found(|census| census.nodes[0].in_lists_by_counter += 1), Some(Checker::Pages));
        assert_eq!(found(|census| census.nodes[0].in_buffers += 1), Some(Checker::Pages));
        let other_copies = |census: &mut Census| census.nodes[0].copy_targets_counted = Some(4);
        assert_eq!(found(other_copies), Some(Checker::Pages));
        assert_eq!(found(|census| census.nodes[0].copy_targets_counted = None), None);
    }

    /// Goal: a page with stale contents is detected.
    #[test]
    fn stale_contents_are_found() {
        let stale = |census: &mut Census| {
            let pid = Pid::new(7).unwrap();
            census.stale.push(StalePage { pid, address: 4096, written: 2, holds: 1 });
            census.stale_folios = 1;
        };
        assert_eq!(found(stale), Some(Checker::Contents));
    }

    /// Goal: a page that is reported twice is detected at once, an unreported one at the end.
    #[test]
    fn pages_that_are_told_of_twice_are_found() {
        assert_eq!(check_mapped_copies(8, 7, false), Ok(()));
        assert_eq!(check_mapped_copies(8, 8, true), Ok(()));
        assert!(check_mapped_copies(8, 9, false).is_err());
        assert!(check_mapped_copies(8, 7, true).is_err());
    }
}
