//! Notices that the balancer gives once: other balancers, nodes that come and go, missing
//! permissions.

use std::path::Path;

use nodeward_balancer::Notice;
use nodeward_model::{Escape as _, OtherBalancer, Pid};

/// Maximum number of pids named in a line; the others are counted.
const PIDS_SHOWN: usize = 5;
/// What tells which thread uses which page.
pub const ACCESS_SOURCES: &str = "run as root, or set kernel.perf_event_paranoid=0, or give \
                                  samples of perf through a pipe (--samples)";

/// Formats a line for each notice. Processes with the same remedy share a line.
pub fn lines(news: &[Notice], acts_beside_rivals: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for one in news {
        match one {
            Notice::Denied { pids, need } => lines.push(not_permitted(need, pids)),
            Notice::RivalCame { rival } => lines.push(appeared_text(rival, acts_beside_rivals)),
            Notice::RivalLeft { rival } => {
                lines.push(format!("{} no longer balances", balancer_name(rival)));
            }
            Notice::NodeCame { node } => lines.push(format!("node {node} came online")),
            Notice::NodeLeft { node } => {
                lines.push(format!("node {node} went offline; its processes get other homes"));
            }
            Notice::Ledger { error } | Notice::State { error } => lines.push(error.clone()),
            Notice::NoAccessSource { pids, obstacle } => {
                lines.push(no_access_source(pids, obstacle));
            }
            Notice::Failed { pid, error } => lines.push(format!("process {pid}: {error}")),
            Notice::LookingSlowed { factor } => lines.push(format!(
                "looking costs more than it may, so the time between rounds is {factor} times as \
                 long"
            )),
        }
    }
    lines
}

fn not_permitted(need: &str, pids: &[Pid]) -> String {
    format!("{} may not be balanced by us: {need}", processes(pids))
}

fn no_access_source(pids: &[Pid], obstacle: &str) -> String {
    let (is, its) = if pids.len() == 1 { ("is", "its") } else { ("are", "their") };
    format!(
        "{} {is} spread over several nodes, and no source tells which thread uses which of {its} \
         pages, so these stay where they are; {obstacle} (nodeward doctor lists all sources)",
        processes(pids)
    )
}

fn processes(pids: &[Pid]) -> String {
    let mut names: Vec<String> = pids.iter().take(PIDS_SHOWN).map(ToString::to_string).collect();
    if let Some(more) = pids.len().checked_sub(PIDS_SHOWN).filter(|&more| more > 0) {
        names.push(format!("{more} more"));
    }
    let plural = if pids.len() == 1 { "" } else { "es" };
    format!("process{plural} {}", names.join(", "))
}

fn balancer_name(rival: &OtherBalancer) -> String {
    match rival {
        OtherBalancer::Kernel { mode } => format!("the kernel (kernel.numa_balancing={mode})"),
        OtherBalancer::Numad { pid } => format!("numad (process {pid})"),
        OtherBalancer::Damon { path } => format!("DAMON ({})", path.escaped()),
    }
}

/// Returns the directory of the kernel thread that works on a scheme.
fn kdamond_dir(scheme: &Path) -> &Path {
    let is_thread = |folder: &&Path| folder.parent().is_some_and(|up| up.ends_with("kdamonds"));
    scheme.ancestors().find(is_thread).unwrap_or(scheme)
}

fn appeared_text(rival: &OtherBalancer, acts: bool) -> String {
    let we = if acts {
        "both move pages now, against each other"
    } else {
        "until it ends, nodeward stands back and does nothing (--dry-run tells what it would do, \
         --rivals ignore does it all the same)"
    };
    format!("{} balances, too: {we}; to end it: {}", balancer_name(rival), stop_command(rival))
}

fn stop_command(rival: &OtherBalancer) -> String {
    match rival {
        OtherBalancer::Kernel { .. } => "sysctl kernel.numa_balancing=0".to_owned(),
        OtherBalancer::Numad { .. } => "systemctl stop numad".to_owned(),
        OtherBalancer::Damon { path } => {
            format!("echo off > {}/state", kdamond_dir(path).escaped())
        }
    }
}

/// Explains why no decision is carried out, and how to change that.
pub fn standing_back(rivals: &[OtherBalancer]) -> String {
    let list = |each: fn(&OtherBalancer) -> String, and: &str| {
        rivals.iter().map(each).collect::<Vec<_>>().join(and)
    };
    format!(
        "nodeward balance stands back (rival), as others balance: {}; to change that: {}, or \
         --rivals ignore",
        list(balancer_name, ", "),
        list(stop_command, " and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: other balancers are named with what ends them, and with our behaviour meanwhile.
    #[test]
    fn rivals_are_named() {
        let came = [
            OtherBalancer::Kernel { mode: 1 },
            OtherBalancer::Numad { pid: Pid::new(7).unwrap() },
            OtherBalancer::Damon {
                path: "/sys/kernel/mm/damon/admin/kdamonds/1/contexts/0/schemes/2".into(),
            },
        ]
        .map(|rival| Notice::RivalCame { rival });
        let mut told = lines(&came, false);
        told.extend(lines(&came[..1], true));
        told.extend(lines(
            &[Notice::RivalLeft { rival: OtherBalancer::Kernel { mode: 1 } }],
            false,
        ));
        insta::assert_snapshot!(told.join("\n"));
    }

    /// Goal: a hundred processes that we may not sample are one line per remedy.
    #[test]
    fn what_is_not_permitted_is_said_in_short() {
        let denied = |pids: std::ops::Range<u32>, need: &str| Notice::Denied {
            pids: pids.map(|pid| Pid::new(pid).unwrap()).collect(),
            need: need.to_owned(),
        };
        let all = [denied(1..101, "run as root"), denied(200..201, "run on the host")];
        assert_eq!(
            lines(&all, false),
            [
                "processes 1, 2, 3, 4, 5, 95 more may not be balanced by us: run as root",
                "process 200 may not be balanced by us: run on the host"
            ]
        );
    }

    /// Goal: what nothing is known of is named once, with what would tell.
    #[test]
    fn processes_without_a_source_are_told_what_gives_one() {
        let told = |pids: std::ops::Range<u32>| {
            let pids = pids.map(|pid| Pid::new(pid).unwrap()).collect();
            let obstacle = "registers: it is not permitted: run as root".to_owned();
            lines(&[Notice::NoAccessSource { pids, obstacle }], false).concat()
        };
        insta::assert_snapshot!([told(7..8), told(1..10)].join("\n"));
    }
}
