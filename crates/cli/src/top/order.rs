//! Which processes are shown, and in which order.

use std::cmp::Reverse;

use crate::args::SortColumn;
use crate::results::top::ProcessFigures;

/// Returns the processes that have a text, sorted.
pub fn sorted<'a>(
    processes: &'a [ProcessFigures],
    filter: &str,
    column: SortColumn,
) -> Vec<&'a ProcessFigures> {
    let mut rows: Vec<_> = processes.iter().filter(|one| matches(one, filter)).collect();
    // What is not known comes last: `None` is less than any number.
    match column {
        SortColumn::Cpu => rows.sort_by_key(|one| Reverse((one.cpu_ppm, one.memory_bytes))),
        SortColumn::Memory => rows.sort_by_key(|one| Reverse(one.memory_bytes)),
        SortColumn::Away => rows.sort_by_key(|one| Reverse((one.bytes_away(), one.memory_bytes))),
        SortColumn::Astray => {
            rows.sort_by_key(|one| Reverse((one.threads_astray(), one.memory_bytes)));
        }
        SortColumn::Pid => rows.sort_by_key(|one| one.pid),
        SortColumn::Name => rows.sort_by_cached_key(|one| one.name.to_string()),
    }
    rows
}

/// Returns whether the pid, the name or the home of a process has a text. Case does not matter.
pub fn matches(process: &ProcessFigures, filter: &str) -> bool {
    if filter.is_empty() {
        return true;
    }
    let filter = filter.to_lowercase();
    let home = process.decision.as_ref().and_then(|decision| decision.home.as_deref());
    process.pid.to_string().contains(&filter)
        || process.name.to_string().to_lowercase().contains(&filter)
        || home.is_some_and(|home| format!("home:{home}").contains(&filter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::top::test_sample::sample;

    fn pids(filter: &str, column: SortColumn) -> Vec<u32> {
        let sample = sample();
        sorted(&sample.processes, filter, column).iter().map(|one| one.pid.number()).collect()
    }

    /// Goal: the most of a column is first, and what is not known last, never taken for 0.
    #[test]
    fn each_column_sorts() {
        assert_eq!(pids("", SortColumn::Cpu), [153, 4711, 7, 12]);
        assert_eq!(pids("", SortColumn::Memory), [4711, 153, 7, 12]);
        assert_eq!(pids("", SortColumn::Away), [153, 4711, 7, 12]);
        assert_eq!(pids("", SortColumn::Astray), [153, 4711, 7, 12]);
        assert_eq!(pids("", SortColumn::Pid), [7, 12, 153, 4711]);
        assert_eq!(pids("", SortColumn::Name), [7, 153, 4711, 12]);
    }

    /// Goal: a filter finds a part of pid, name or home, whatever the case.
    #[test]
    fn a_filter_finds_parts() {
        assert_eq!(pids("47", SortColumn::Pid), [4711]);
        assert_eq!(pids("POST", SortColumn::Pid), [4711]);
        assert_eq!(pids("home:1", SortColumn::Pid), [153]);
        assert_eq!(pids("nobody", SortColumn::Pid), [0; 0]);
    }
}
