//! Checks of the machine's configuration: its nodes, and other users and movers of memory.

use std::fs;
use std::path::{Path, PathBuf};

use nodeward_model::units::format_bytes;
use nodeward_model::{Escape as _, NodeId, Nodemask};

use super::check_result::{CheckResult, CheckState, Role};
use crate::confinement::Confinement;
use crate::kernel_file;
use crate::sched_ext::{OWN_SCHEDULER, SchedExtState};

/// Reads all files under `root`.
pub fn check_environment(root: &Path, situation: &Confinement) -> Vec<CheckResult> {
    let machine = SystemFiles { root };
    let finding =
        |check, role, matters, state| CheckResult { check, role, relevance: matters, state };
    let around = |check, matters, state| finding(check, Role::Environment, matters, state);
    vec![
        finding("nodes", Role::Needed, "pages need somewhere to go", machine.nodes()),
        around("cpuset", "the kernel refuses nodes outside it", machine.cpuset(situation)),
        around("free-memory", "moves end where a node is full", machine.free_memory()),
        around("numa-balancing", "the kernel may move pages back", machine.numa_balancing()),
        around("other-movers", "two movers undo each other's work", machine.other_movers()),
        around("scheduler", "threads run where it puts them", machine.scheduler()),
        around("cache-aware", "it gathers threads, not memory", machine.cache_aware_scheduling()),
        around("zone-reclaim", "a full node stalls", machine.zone_reclaim()),
        around("huge-pages", "huge pages move whole", machine.huge_pages()),
        around("swap", "pages in swap have no node", machine.swap()),
        around("confinement", "containers and filters refuse calls", confinement(situation)),
    ]
}

struct SystemFiles<'a> {
    root: &'a Path,
}

impl SystemFiles<'_> {
    fn read(&self, path: &str) -> Option<String> {
        kernel_file::read_to_string(self.root.join(path)).ok().map(|text| text.trim().to_owned())
    }

    fn memory_nodes(&self) -> Option<Nodemask> {
        self.read("sys/devices/system/node/has_memory")?.parse().ok()
    }

    fn nodes(&self) -> CheckState {
        match self.memory_nodes() {
            None => {
                CheckState::missing("the kernel shows no nodes", "boot a kernel with CONFIG_NUMA")
            }
            Some(nodes) if nodes.len() < 2 => CheckState::missing(
                format!("only node {nodes} has memory"),
                "none: this machine has nothing to move between",
            ),
            Some(nodes) => CheckState::works(format!("nodes {nodes} have memory")),
        }
    }

    fn cpuset(&self, situation: &Confinement) -> CheckState {
        let (Some(nodes), Some(allowed)) =
            (self.memory_nodes(), &situation.privileges.memory_nodes)
        else {
            return CheckState::unknown("the kernel shows no nodes or no cpuset");
        };
        let forbidden = nodes.without(allowed);
        match forbidden.is_empty() {
            true => CheckState::works("all nodes are allowed to this process"),
            false => CheckState::hinders(
                format!("nodes {forbidden} are forbidden to this process"),
                "widen cpuset.mems of the control group (that of the target counts)",
            ),
        }
    }

    fn free_memory(&self) -> CheckState {
        let nodes = self.memory_nodes().unwrap_or_default();
        let free: Vec<_> = nodes.iter().filter_map(|node| self.node_memory(node)).collect();
        if free.is_empty() {
            return CheckState::unknown("the kernel does not show the memory of nodes");
        }
        let shown: Vec<_> = free.iter().map(NodeMemory::show).collect();
        let shown = shown.join(", ");
        match free.iter().any(NodeMemory::is_full) {
            true => CheckState::hinders(shown, "free memory there, or move less to it"),
            false => CheckState::works(shown),
        }
    }

    fn node_memory(&self, node: NodeId) -> Option<NodeMemory> {
        let text = self.read(&format!("sys/devices/system/node/node{node}/meminfo"))?;
        let kib = |name: &str| {
            let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(name))?;
            line.split_whitespace().nth(3)?.parse::<u64>().ok()
        };
        Some(NodeMemory {
            node,
            total_bytes: kib("MemTotal:")? << 10,
            free_bytes: kib("MemFree:")? << 10,
        })
    }

    fn numa_balancing(&self) -> CheckState {
        let fix = "sysctl kernel.numa_balancing=0, or give the target a memory policy";
        match self.read("proc/sys/kernel/numa_balancing").as_deref() {
            None | Some("0") => CheckState::works("off"),
            Some("1") => CheckState::hinders("on (1): pages follow threads", fix),
            Some("2") => CheckState::hinders("memory tiering (2): hot pages are promoted", fix),
            Some(mode) => CheckState::hinders(format!("on ({mode})"), fix),
        }
    }

    fn other_movers(&self) -> CheckState {
        if let Some(daemon) = self.running_daemon() {
            let fix = format!("stop it (systemctl stop {daemon})");
            return CheckState::hinders(format!("{daemon} is running"), fix);
        }
        match self.damon_scheme() {
            Some(action) => CheckState::hinders(
                format!("a DAMON scheme does {action}"),
                "turn its kdamond off (/sys/kernel/mm/damon/admin/kdamonds/*/state)",
            ),
            None => CheckState::works("neither a daemon nor a DAMON scheme was found"),
        }
    }

    fn running_daemon(&self) -> Option<&'static str> {
        let known = ["numad", "memtierd"];
        let name = |folder: &PathBuf| kernel_file::read(folder.join("comm")).ok();
        let names = entries(&self.root.join("proc"));
        names.iter().filter_map(name).find_map(|name| {
            known.into_iter().find(|known| name.strip_suffix(b"\n") == Some(known.as_bytes()))
        })
    }

    /// Returns the action of a running scheme that moves pages between nodes.
    fn damon_scheme(&self) -> Option<String> {
        let text =
            |path: PathBuf| kernel_file::read_to_string(path).unwrap_or_default().trim().to_owned();
        let daemons = entries(&self.root.join("sys/kernel/mm/damon/admin/kdamonds"));
        let running = daemons.iter().filter(|folder| text(folder.join("state")) == "on");
        let contexts = running.flat_map(|folder| entries(&folder.join("contexts")));
        let schemes = contexts.flat_map(|folder| entries(&folder.join("schemes")));
        let mut actions = schemes.map(|folder| text(folder.join("action")));
        actions.find(|action| action.starts_with("migrate_"))
    }

    /// Tells which scheduler places threads. A kernel with sched_ext has a state also while none is
    /// loaded.
    fn scheduler(&self) -> CheckState {
        match SchedExtState::read(self.root) {
            SchedExtState::Absent => CheckState::works("the kernel's own; it has no sched_ext"),
            SchedExtState::Disabled => {
                CheckState::works("the kernel's own; sched_ext can load another")
            }
            SchedExtState::Loaded { name, .. } if name == OWN_SCHEDULER.as_bytes() => {
                CheckState::works("that of nodeward balance, which runs threads at home")
            }
            SchedExtState::Loaded { state, name } => CheckState::hinders(
                format!(
                    "'{}' of sched_ext ({}): it decides where threads run",
                    name.escaped(),
                    state.escaped()
                ),
                "stop the program that loaded it, if threads do not stay at home",
            ),
        }
    }

    /// Tells whether the kernel gathers the threads of a process around one cache (SCHED_CACHE).
    fn cache_aware_scheduling(&self) -> CheckState {
        let switch = "sys/kernel/debug/sched/llc_balancing/enabled";
        match (self.read(switch).as_deref(), self.root.join("sys/kernel/debug/sched").is_dir()) {
            (Some("0"), _) => CheckState::works("off"),
            (Some(_), _) => CheckState::works("on: it gathers threads of a process at one cache"),
            (None, true) => CheckState::works("not in this kernel"),
            (None, false) => CheckState::unknown("only root sees it, where debugfs is mounted"),
        }
    }

    fn zone_reclaim(&self) -> CheckState {
        match self.read("proc/sys/vm/zone_reclaim_mode").as_deref() {
            None | Some("0") => CheckState::works("off"),
            Some(mode) => CheckState::hinders(
                format!("on ({mode}): a node frees its own pages before others are used"),
                "sysctl vm.zone_reclaim_mode=0",
            ),
        }
    }

    fn huge_pages(&self) -> CheckState {
        let modes = self.read("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let chosen = modes.split(['[', ']']).nth(1).unwrap_or("not available");
        let pools: Vec<_> = entries(&self.root.join("sys/kernel/mm/hugepages"))
            .iter()
            .filter_map(|pool| show_pool(pool))
            .collect();
        let pools = if pools.is_empty() { "none".to_owned() } else { pools.join(", ") };
        CheckState::works(format!("transparent: {chosen}; pools: {pools}"))
    }

    fn swap(&self) -> CheckState {
        let Some(text) = self.read("proc/swaps") else { return CheckState::works("none") };
        let kib = |line: &str| line.split_whitespace().nth(3)?.parse::<u64>().ok();
        match text.lines().skip(1).filter_map(kib).sum::<u64>() {
            0 => CheckState::works("none in use"),
            used => CheckState::works(format!("{} in use", format_bytes(used << 10))),
        }
    }
}

fn confinement(situation: &Confinement) -> CheckState {
    let container = situation.container.map_or("no container".to_owned(), |c| c.to_string());
    let filter = match situation.privileges.seccomp_filtered {
        Some(true) => "a seccomp filter",
        Some(false) | None => "no seccomp filter",
    };
    let users = if situation.user_namespace { ", a user namespace" } else { "" };
    CheckState::works(format!("{container}, {filter}{users}"))
}

/// The memory of one node.
struct NodeMemory {
    node: NodeId,
    total_bytes: u64,
    free_bytes: u64,
}

impl NodeMemory {
    /// Returns true below one free part in 64, where the kernel is about to reclaim.
    fn is_full(&self) -> bool {
        self.free_bytes < self.total_bytes / 64
    }

    fn show(&self) -> String {
        let (free, total) = (format_bytes(self.free_bytes), format_bytes(self.total_bytes));
        format!("node {}: {free} of {total}", self.node)
    }
}

/// Describes a pool that has pages: `8 of 2.00 MiB (3 free)`.
fn show_pool(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_str()?;
    let size_kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    let count =
        |file| kernel_file::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    let (pages, free) = (count("nr_hugepages")?, count("free_hugepages")?);
    (pages > 0).then(|| format!("{pages} of {} ({free} free)", format_bytes(size_kib << 10)))
}

/// Returns the entries of a directory in order; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<_> = read.filter_map(|entry| entry.ok().map(|e| e.path())).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::privileges::Privileges;

    /// Files of a machine with every known misconfiguration.
    const BAD: [(&str, &str); 14] = [
        ("sys/devices/system/node/has_memory", "0,2\n"),
        (
            "sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal: 65536 kB\nNode 0 MemFree: 9 kB\n",
        ),
        (
            "sys/devices/system/node/node2/meminfo",
            "Node 2 MemTotal: 64 kB\nNode 2 MemFree: 32 kB\n",
        ),
        ("proc/sys/kernel/numa_balancing", "1\n"),
        ("proc/sys/vm/zone_reclaim_mode", "1\n"),
        ("proc/77/comm", "numad\n"),
        ("proc/self/comm", "doctor\n"),
        ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 2048 1024 -2\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/action", "stat\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/1/action", "migrate_hot\n"),
    ];

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        root
    }

    fn states(files: &[(&str, &str)], allowed: &str) -> Vec<(&'static str, CheckState)> {
        let root = tree(files);
        let memory_nodes = Some(allowed.parse().unwrap());
        let status = Privileges { memory_nodes, ..Privileges::default() };
        let situation = Confinement { privileges: status, ..Confinement::default() };
        let findings = check_environment(root.path(), &situation);
        findings.into_iter().map(|finding| (finding.check, finding.state)).collect()
    }

    fn check(states: &[(&'static str, CheckState)], check: &str, name: &str, seen: &str) {
        let (_, state) = states.iter().find(|(found, _)| *found == check).unwrap();
        assert_eq!((state.name(), state.observation()), (name, seen), "{check}");
    }

    /// Goal: everything that works against moves is found and named.
    #[test]
    fn a_bad_machine_is_seen_through() {
        let states = states(&BAD, "0");
        check(&states, "nodes", "ok", "nodes 0,2 have memory");
        check(&states, "cpuset", "hinders", "nodes 2 are forbidden to this process");
        let free = "node 0: 9.00 KiB of 64.0 MiB, node 2: 32.0 KiB of 64.0 KiB";
        check(&states, "free-memory", "hinders", free);
        check(&states, "numa-balancing", "hinders", "on (1): pages follow threads");
        check(&states, "other-movers", "hinders", "numad is running");
        check(&states, "huge-pages", "ok", "transparent: madvise; pools: 8 of 2.00 MiB (3 free)");
        check(&states, "swap", "ok", "1.00 MiB in use");
    }

    /// Goal: DAMON's schemes are checked too, and only those that move pages between nodes count.
    #[test]
    fn damon_schemes_are_seen() {
        let without_numad: Vec<_> =
            BAD.into_iter().filter(|(path, _)| !path.contains("77")).collect();
        let seen = states(&without_numad, "0,2");
        check(&seen, "other-movers", "hinders", "a DAMON scheme does migrate_hot");
        let off: Vec<_> = without_numad.into_iter().filter(|(_, text)| *text != "on\n").collect();
        assert_eq!(states(&off, "0,2")[4].1.name(), "ok");
    }

    /// Goal: a scheduler of sched_ext is named, its name escaped; without one, the kernel's own is
    /// told, and whether another could be loaded.
    #[test]
    fn schedulers_of_sched_ext_are_named() {
        let (state, ops) = ("sys/kernel/sched_ext/state", "sys/kernel/sched_ext/root/ops");
        let seen = |files: &[_], name, seen| check(&states(files, "0"), "scheduler", name, seen);
        seen(&[], "ok", "the kernel's own; it has no sched_ext");
        seen(&[(state, "disabled\n")], "ok", "the kernel's own; sched_ext can load another");
        let loaded = [(state, "enabled\n"), (ops, "a\u{1b}b_1.0\n")];
        let named = "'a\\x1bb_1.0' of sched_ext (enabled): it decides where threads run";
        seen(&loaded, "hinders", named);
        let leaving = "'' of sched_ext (disabling): it decides where threads run";
        seen(&[(state, "disabling\n")], "hinders", leaving);
        let own = [(state, "enabled\n"), (ops, "nodeward_homes\n")];
        seen(&own, "ok", "that of nodeward balance, which runs threads at home");
    }

    /// Goal: cache-aware scheduling is on, off, absent, or, without debugfs, not known.
    #[test]
    fn cache_aware_scheduling_is_named() {
        let switch = "sys/kernel/debug/sched/llc_balancing/enabled";
        let seen = |files: &[_], name, seen| check(&states(files, "0"), "cache-aware", name, seen);
        seen(&[(switch, "1\n")], "ok", "on: it gathers threads of a process at one cache");
        seen(&[(switch, "0\n")], "ok", "off");
        seen(&[("sys/kernel/debug/sched/preempt", "full\n")], "ok", "not in this kernel");
        seen(&[], "unknown", "only root sees it, where debugfs is mounted");
    }

    /// Goal: a kernel that shows no files at all gives unknown or missing states, without guesses.
    #[test]
    fn an_empty_tree_is_no_machine() {
        let states = states(&[], "0");
        check(&states, "nodes", "missing", "the kernel shows no nodes");
        check(&states, "free-memory", "unknown", "the kernel does not show the memory of nodes");
        check(&states, "numa-balancing", "ok", "off");
    }
}
