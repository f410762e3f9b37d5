//! Groups of cases, each in a guest of its own.

use std::time::Duration;

use nodeward_lab::{
    GuestFile, GuestKernel, GuestRun, LabMachine, RunOutput, is_every_case_wanted, open_for_test,
};

use crate::programs;

/// Cases that run where all are wanted only. They take the longest, and a shorter case, which is
/// beside each, has the same subject and always runs.
const LONG: [(&str, &str); 25] = [
    ("many_mappings", "reserved_addresses"),
    ("stopped_while_looking", "stopped_before_moving"),
    ("pager_destination_fills_up", "pager_destination_full"),
    ("list_without_end", "list_that_is_wrong"),
    ("exchange_of_unequals", "exchange_full_nodes"),
    ("undo_by_a_deadline", "undo_a_move"),
    ("undo_of_a_running_move", "undo_after_kill"),
    ("hot_by_damon", "damon_finds_what_is_hot"),
    ("file_over_cold_cache", "file_clean"),
    ("file_tree_changes", "file_tree"),
    ("file_xfs", "file_tmpfs"),
    // `bench/run spread.` has the same server, and `make test` runs that.
    ("balance_postgres", "balance_brings_memory_home"),
    ("groups_without_an_agent", "groups_by_calls"),
    ("pager_exchange_full_nodes", "exchange_full_nodes"),
    ("file_dax", "file_tmpfs"),
    ("killed_between_calls", "killed_at_any_time"),
    // `bench/run spread.` spreads a segment, too.
    ("spread_segment", "spread_hugetlb"),
    // The host's tests sample by registers.
    ("balance_parts", "balance_brings_memory_home"),
    ("balance_targets_fork", "balance_pid_comes_back"),
    ("balance_lets_stand", "balance_brings_threads_home"),
    ("balance_run_unscanned", "balance_cooperates"),
    ("balance_take_over_changed", "balance_take_over_killed"),
    ("agent_interrupted", "agent_moves_for_a_container"),
    ("segment_excluded", "segment_whole"),
    ("file_tmpfs_swapped", "swapped"),
];

/// A guest for some cases.
#[derive(Clone, Debug)]
pub struct CaseGuest {
    pub kernel: GuestKernel,
    pub scenario: LabMachine,
    /// Additional arguments of the kernel.
    pub append: String,
    /// Environment variables of the cases.
    pub env: Vec<(String, String)>,
    /// Files beside the programs.
    pub files: Vec<GuestFile>,
    pub timeout: Duration,
    /// Whether its CPUs run at the same time, as cases about races want it. Otherwise they take
    /// turns, which takes less of the host.
    pub parallel: bool,
}

impl CaseGuest {
    pub fn new(kernel: &GuestKernel, scenario: LabMachine) -> Self {
        let timeout = Duration::from_secs(300);
        let (append, env, files) = (String::new(), Vec::new(), Vec::new());
        let (kernel, parallel) = (kernel.clone(), false);
        Self { kernel, scenario, append, env, files, timeout, parallel }
    }

    /// Runs cases, prints their output, and fails if one of them did. Without those that are too
    /// long where not all are wanted.
    pub fn run(self, names: &[&str]) {
        let names = wanted(names);
        if names.is_empty() {
            return;
        }
        let Self { kernel, scenario, append, env, files: more, timeout, parallel } = self;
        let Some(lab) = open_for_test(&kernel) else { return };
        let Some(programs) = programs::find(&lab, &kernel) else { return };
        let mut command = vec!["nodeward-cases"];
        command.extend(&names);
        let files = [programs.files(), more].concat();
        let run = GuestRun {
            kernel,
            files,
            timeout,
            append,
            env,
            take_turns: !parallel,
            ..GuestRun::new(scenario, command)
        };
        let finished = lab.run(&run).expect("the lab runs");
        let kernel = &run.kernel;
        print!("on {kernel}:\n{}", text(&finished.stdout));
        assert_eq!(finished.code, 0, "on {kernel}: {}", told(&finished));
        for name in &names {
            let ended = ["ok", "skipped"].map(|how| format!("{how} {name}:"));
            let is_so = |line: &str| ended.iter().any(|start| line.starts_with(start));
            assert!(text(&finished.stdout).lines().any(is_so), "{name} did not end");
        }
    }
}

/// Returns the cases to run; names those that are left out.
fn wanted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let is_long = |name: &str| LONG.iter().any(|(long, _)| *long == name);
    let (long, mut wanted): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| is_long(name));
    if !long.is_empty() && is_every_case_wanted() {
        wanted = names.to_vec();
    } else if !long.is_empty() {
        println!("skipped: {}; `make test-long` runs them", long.join(", "));
    }
    wanted
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn told(finished: &RunOutput) -> String {
    format!("timed out: {}\n{}", finished.timed_out, text(&finished.stderr))
}
