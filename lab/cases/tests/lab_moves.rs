//! `nodeward move` on real kernels: each test is one guest that runs a group of cases of
//! `nodeward-cases`, which state their goals.

use std::time::Duration;

use nodeward_lab::{GuestKernel, LabMachine, is_every_kernel_wanted, scenario};

use guests::CaseGuest;

mod guests;
mod programs;

/// Runs cases in one guest, prints their output, and fails if one of them did.
fn cases(kernel: &GuestKernel, scenario: LabMachine, names: &[&str]) {
    cases_with("", kernel, scenario, names);
}

/// As [`cases`], with additional arguments for the kernel.
fn cases_with(append: &str, kernel: &GuestKernel, scenario: LabMachine, names: &[&str]) {
    CaseGuest { append: append.to_owned(), ..CaseGuest::new(kernel, scenario) }.run(names);
}

/// As [`cases`], on CPUs that run at the same time.
fn cases_in_parallel(kernel: &GuestKernel, names: &[&str]) {
    CaseGuest { parallel: true, ..CaseGuest::new(kernel, scenario("two-nodes")) }.run(names);
}

fn on_two_nodes(names: &[&str]) {
    cases(&GuestKernel::V6_12, scenario("two-nodes"), names);
}

/// Cases that the newest kernel runs in any case.
fn on_another_kernel(kernel: &GuestKernel, names: &[&str]) {
    if is_every_kernel_wanted() {
        cases(kernel, scenario("two-nodes"), names);
    }
}

/// Cases that may depend on the kernel: its answers, its refusals, the end of processes.
const ON_EVERY_KERNEL: [&str; 26] = [
    "conformance",
    "conformance_without_privilege",
    "conformance_in_every_state",
    "conformance_of_looks_and_nudges",
    "anonymous",
    "page_cache",
    "thp",
    "thp_without_privilege",
    "hugetlb",
    "hugetlb_shared",
    "hugetlb_in_a_pipe",
    "hugetlb_without_a_pool",
    "ksm",
    "swapped",
    "never_touched",
    "huge_zero_page",
    "split_zero_pages",
    "pinned",
    "shared_without_privilege",
    "cpuset_forbids",
    "killed_at_any_time",
    "exec",
    "race_all",
    "thread_id",
    "thp_split",
    "collapse",
];

#[test]
fn on_5_10() {
    on_another_kernel(&GuestKernel::V5_10, &ON_EVERY_KERNEL);
}

/// The first four: this kernel lacks calls, and other ones take their place.
#[test]
fn conformance_on_6_1() {
    cases(&GuestKernel::V6_1, scenario("two-nodes"), &ON_EVERY_KERNEL[..4]);
}

#[test]
fn on_6_1() {
    on_another_kernel(&GuestKernel::V6_1, &ON_EVERY_KERNEL[4..]);
}

#[test]
fn on_6_12() {
    on_another_kernel(&GuestKernel::V6_12, &ON_EVERY_KERNEL);
}

#[test]
fn on_the_newest_kernel() {
    cases_in_parallel(&GuestKernel::Newest, &ON_EVERY_KERNEL);
}

/// Each kernel has its own DAMON, if any, and its own method to list written pages.
const HOT: [&str; 10] = [
    "damon_finds_what_is_hot",
    "damon_stat_is_left_alone",
    "damon_of_others_is_left_alone",
    "damon_target_ends",
    "damon_after_a_kill",
    "damon_without_privilege",
    "written_exactly",
    "written_kinds",
    "written_target_ends",
    "written_without_privilege",
];

#[test]
fn hot_on_5_10() {
    let written =
        ["written_exactly", "written_kinds", "written_target_ends", "written_without_privilege"];
    on_another_kernel(&GuestKernel::V5_10, &written);
}

/// Without PAGEMAP_SCAN, written pages are listed in another way.
#[test]
fn hot_on_6_1() {
    let names = if is_every_kernel_wanted() { &HOT[..] } else { &HOT[6..] };
    cases(&GuestKernel::V6_1, scenario("two-nodes"), names);
}

#[test]
fn hot_on_6_12() {
    on_another_kernel(&GuestKernel::V6_12, &HOT);
}

/// One of [`WATCH`] runs here: a guest of its own takes seconds.
#[test]
fn hot_on_the_newest_kernel() {
    cases(&GuestKernel::Newest, scenario("two-nodes"), &[&HOT[..], &WATCH[..1]].concat());
}

/// Before Linux 6.7 populated memory is found in another way.
const SHAPES: [&str; 6] = [
    "reserved_addresses",
    "reserved_addresses_undone",
    "many_mappings",
    "stopped_while_looking",
    "stopped_while_it_waits_for_its_rate",
    "stopped_before_moving",
];
/// Those that take minutes.
const LARGE_SHAPES: [&str; 3] = ["most_mappings", "mappings_come_and_go", "balanced_shapes"];

fn large_shapes(kernel: &GuestKernel) {
    if is_every_kernel_wanted() {
        let guest = CaseGuest::new(kernel, scenario("two-nodes"));
        CaseGuest { timeout: Duration::from_secs(1200), ..guest }.run(&LARGE_SHAPES);
    }
}

#[test]
fn shapes_on_5_10() {
    on_another_kernel(&GuestKernel::V5_10, &SHAPES);
}

#[test]
fn shapes_on_6_1() {
    cases(&GuestKernel::V6_1, scenario("two-nodes"), &SHAPES);
}

#[test]
fn large_shapes_on_6_1() {
    large_shapes(&GuestKernel::V6_1);
}

#[test]
fn shapes_on_6_12() {
    on_another_kernel(&GuestKernel::V6_12, &SHAPES);
}

#[test]
fn large_shapes_on_the_newest_kernel() {
    large_shapes(&GuestKernel::Newest);
}

#[test]
fn kinds_of_memory() {
    on_two_nodes(&[
        "heap",
        "shared",
        "file",
        "stack",
        "mlocked",
        "anonymous_without_privilege",
        "zero_pages",
    ]);
}

/// Kernels differ in what their tracepoints tell.
const WATCH: [&str; 9] = [
    "watch_counts_what_moves",
    "watch_counts_huge_pages",
    "watch_counts_tlb_flushes",
    "watch_holds_as_threads_wait",
    "watch_counts_numa_balancing",
    "watch_of_a_process",
    "watch_with_too_many_callers",
    "watch_leaves_nothing",
    "watch_without_programs",
];

#[test]
fn watch_on_5_10() {
    on_another_kernel(&GuestKernel::V5_10, &["watch_tells_what_is_missing"]);
}

#[test]
fn watch_on_6_1() {
    on_another_kernel(&GuestKernel::V6_1, &WATCH);
}

#[test]
fn watch_on_6_12() {
    on_another_kernel(&GuestKernel::V6_12, &WATCH);
}

#[test]
fn watch_on_the_newest_kernel() {
    on_another_kernel(&GuestKernel::Newest, &WATCH[1..]);
}

/// Each in a guest of its own, because its children stay.
#[test]
fn segments() {
    cases(&GuestKernel::Newest, scenario("two-nodes"), &["segment_whole"]);
    on_two_nodes(&["segment_excluded"]);
    on_another_kernel(&GuestKernel::V6_1, &["segment_whole"]);
}

/// In a guest of its own, because the evacuation moves the memory of everything in it.
#[test]
fn evacuation() {
    on_two_nodes(&["evacuate_a_node"]);
}

#[test]
fn spread() {
    on_two_nodes(&["spread_segment", "spread_hugetlb", "placement_over_a_restart"]);
}

#[test]
fn faults_and_bad_input() {
    on_two_nodes(&[
        "shared_with_privilege",
        "outside_our_cpuset",
        "stopped_target",
        "interrupted",
        "kernel_thread",
        "another_users_process",
        "unequal_nodes",
    ]);
}

#[test]
fn targets_that_end_and_races() {
    let names = [
        "killed_between_calls",
        "exits",
        "zombie",
        "race_unmap",
        "race_discard",
        "race_grow",
        "race_fork",
        "race_without_privilege",
    ];
    cases_in_parallel(&GuestKernel::V6_12, &names);
}

#[test]
fn what_is_chosen_moves() {
    on_two_nodes(&[
        "dry_run",
        "only",
        "exclude",
        "range",
        "rate",
        "stall",
        "stall_huge",
        "family",
        "by_name",
    ]);
}

#[test]
fn as_migratepages() {
    on_two_nodes(&["drop_in_agrees", "drop_in_tells_what_stayed"]);
}

/// A second node that is soon full.
fn small_node(memory: &str) -> LabMachine {
    let text = format!(
        "about = \"A second node too small for what comes\"\n\
        [[node]]\nid = 0\ncpus = 1\nmemory = \"1GiB\"\n\
        [[node]]\nid = 1\ncpus = 1\nmemory = \"{memory}\"\n"
    );
    LabMachine::parse("small-node", &text).expect("a scenario")
}

#[test]
fn hot_pages() {
    on_two_nodes(&["hot_by_counts", "hot_by_perf", "hot_by_damon", "hot_by_written_pages"]);
}

#[test]
fn lists_and_sources() {
    on_two_nodes(&[
        "list_as_text",
        "list_as_binary",
        "list_of_physical_addresses",
        "list_of_huge_pages",
        "list_that_is_wrong",
        "list_without_end",
        "hot_source_that_is_wrong",
    ]);
}

/// Nodes that pools of huge pages can quickly fill.
fn small_nodes() -> LabMachine {
    let text = "about = \"Nodes that pools of huge pages can quickly fill\"\n\
        [[node]]\nid = 0\ncpus = 1\nmemory = \"448MiB\"\n\
        [[node]]\nid = 1\ncpus = 1\nmemory = \"320MiB\"\n";
    LabMachine::parse("small-nodes", text).expect("a scenario")
}

/// The first case needs memory that was never used: otherwise the kernel compacts memory for pools
/// of huge pages, also later, and refuses a page that it is moving at that moment.
const EXCHANGES: [&str; 3] =
    ["pager_exchange_full_nodes", "exchange_full_nodes", "exchange_of_unequals"];

#[test]
fn nodes_that_change_places() {
    cases(&GuestKernel::V6_12, small_nodes(), &EXCHANGES);
}

/// The pager on kernels that have UFFDIO_MOVE.
const PAGER: [&str; 8] = [
    "pager_under_a_writer",
    "pager_placement",
    "pager_lazily",
    "pager_few_mappings",
    "pager_in_a_full_group",
    "pager_cheapest_way",
    "pager_arrive_huge",
    "pager_merged",
];

#[test]
fn pager_and_pool_on_5_10() {
    let names = [
        "pager_by_remap",
        "pager_by_remap_meddled",
        "pager_in_a_full_group",
        "pool_foreign_lists",
        "pool_cpu_goes",
        "pool_under_pressure",
    ];
    if is_every_kernel_wanted() {
        cases_with("psi=1", &GuestKernel::V5_10, scenario("two-nodes"), &names);
    }
}

#[test]
fn pager_on_6_1() {
    let by_remap = ["pager_by_remap", "pager_by_remap_meddled", "pager_in_a_full_group"];
    cases(&GuestKernel::V6_1, scenario("two-nodes"), &by_remap);
}

#[test]
fn pager_on_6_12() {
    on_another_kernel(&GuestKernel::V6_12, &PAGER);
}

#[test]
fn pager_on_the_newest_kernel() {
    cases(&GuestKernel::Newest, scenario("two-nodes"), &PAGER);
}

/// Kernels differ for the page pool only in how they report pressure; each has its own DAX. 128 MiB
/// of node 0 serve as persistent memory.
const BY_ARGUMENTS: [&str; 5] =
    ["pool_placement", "pool_foreign_lists", "pool_cpu_goes", "pool_under_pressure", "file_dax"];

#[test]
fn pool_and_files_on_dax() {
    let on = |kernel| {
        cases_with("psi=1 memmap=128M!1G", &kernel, scenario("two-nodes"), &BY_ARGUMENTS);
    };
    on(GuestKernel::Newest);
    if is_every_kernel_wanted() {
        on(GuestKernel::V6_1);
        on(GuestKernel::V6_12);
    }
}

#[test]
fn ledger_undo_and_names() {
    on_two_nodes(&[
        "undo_a_move",
        "undo_by_a_deadline",
        "undo_what_is_still_there",
        "undo_after_kill",
        "undo_of_the_gone",
        "undo_of_a_running_move",
        "ledger_that_cannot_be_written",
        "ledger_of_two_at_once",
        "name_of_any_bytes_moves",
        "name_of_any_bytes_comes_home",
        "top_moves_and_undoes",
    ]);
}

/// Cases on a node that fills up. Those with files are last: the file's disk stays in memory.
const FULL: [&str; 4] =
    ["file_root_system", "destination_full", "pool_full_node", "file_destination_full"];

#[test]
fn a_full_destination() {
    let names = if is_every_kernel_wanted() { &FULL[..] } else { &FULL[..2] };
    cases(&GuestKernel::V6_12, small_node("128MiB"), names);
}

/// Those that depend on the kernel. They need a node that the others have not used.
const FULL_BY_KERNEL: [&str; 4] = [
    "file_root_system",
    "conformance_of_a_full_node",
    "pager_destination_full",
    "pager_destination_fills_up",
];

#[test]
fn a_full_destination_on_6_12() {
    if is_every_kernel_wanted() {
        cases(&GuestKernel::V6_12, small_node("128MiB"), &FULL_BY_KERNEL);
    }
}

#[test]
fn a_full_destination_on_the_newest_kernel() {
    cases(&GuestKernel::Newest, small_node("128MiB"), &FULL_BY_KERNEL);
}

/// Files: kernels differ in their folios, and in what they report about them.
const FILES: [&str; 17] = [
    "file_clean",
    "file_dirty",
    "file_mapped",
    "file_mapped_without_privilege",
    "file_of_somebody_else",
    "file_not_in_memory",
    "file_shrinks",
    "file_collapsed",
    "file_xfs",
    "file_overlay",
    "file_tmpfs",
    "file_tmpfs_huge",
    "file_tmpfs_swapped",
    "file_ramfs",
    "file_hugetlbfs",
    "file_hugetlbfs_without_a_pool",
    "file_hugetlbfs_with_holes",
];

/// The walk through a tree, and the end of a move, depend on nodeward alone.
const FILES_OF_ANY_KERNEL: [&str; 3] = ["file_tree", "file_tree_changes", "file_interrupted"];

#[test]
fn files_on_6_1() {
    on_another_kernel(&GuestKernel::V6_1, &FILES);
}

#[test]
fn files_of_any_kernel() {
    on_two_nodes(&FILES_OF_ANY_KERNEL);
}

#[test]
fn files_on_6_12() {
    on_another_kernel(&GuestKernel::V6_12, &FILES);
}

#[test]
fn files_on_the_newest_kernel() {
    cases(&GuestKernel::Newest, scenario("two-nodes"), &FILES);
}

#[test]
fn files_over_a_cold_cache() {
    cases(&GuestKernel::V6_12, small_node("256MiB"), &["file_over_cold_cache"]);
}

#[test]
fn several_nodes_with_a_hole() {
    cases(&GuestKernel::V6_12, scenario("four-nodes-hole"), &["several_nodes"]);
}

#[test]
fn a_node_without_memory() {
    cases(&GuestKernel::V6_12, scenario("memoryless"), &["memoryless_node"]);
}
